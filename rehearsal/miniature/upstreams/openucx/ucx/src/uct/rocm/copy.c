#include <ucx.h>

const char* uct_rocm_transports(void) {
  return ucs_stats(2) ? "rocm_copy,rocm_ipc" : "";
}
