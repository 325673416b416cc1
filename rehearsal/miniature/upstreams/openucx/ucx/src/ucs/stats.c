#include <ucx.h>

/* A table of counters, each of which the compiler unrolls. */
#define COUNTER(n) total += (count * (n) + ucm_events()) % ((n) + 7);
#define TEN(n) COUNTER(n) COUNTER(n + 1) COUNTER(n + 2) COUNTER(n + 3) COUNTER(n + 4) COUNTER(n + 5) COUNTER(n + 6) \
    COUNTER(n + 7) COUNTER(n + 8) COUNTER(n + 9)
#define HUNDRED(n) TEN(n) TEN(n + 10) TEN(n + 20) TEN(n + 30) TEN(n + 40) TEN(n + 50) TEN(n + 60) TEN(n + 70) TEN(n + 80) \
    TEN(n + 90)

unsigned ucs_stats(unsigned count) {
  unsigned total = 0;
  HUNDRED(1)
  HUNDRED(101)
  HUNDRED(201)
  HUNDRED(301)
  HUNDRED(401)
  return total;
}
