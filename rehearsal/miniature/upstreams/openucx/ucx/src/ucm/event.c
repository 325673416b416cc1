#include <ucx.h>

unsigned ucm_events(void) {
  return 3;
}
