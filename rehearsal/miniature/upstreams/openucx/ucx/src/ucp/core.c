#include <stdio.h>

#include <ucp/api/ucp.h>
#include <ucx.h>

const char* ucp_describe(void) {
  static char text[256];
  char settings[128];
  ucs_config("TLS=all;LOG_LEVEL=warn", settings, sizeof(settings));
  snprintf(text, sizeof(text), "UCX 1.22.0 transports %s settings %s", uct_transports(), settings);
  return text;
}
