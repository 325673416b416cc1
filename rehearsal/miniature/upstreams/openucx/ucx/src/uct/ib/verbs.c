#include <infiniband/verbs.h>
#include <ucx.h>

const char* uct_ib_transports(void) {
  return ucs_stats(3) && sizeof(struct ibv_qp) ? "rc_verbs,ud_verbs" : "";
}
