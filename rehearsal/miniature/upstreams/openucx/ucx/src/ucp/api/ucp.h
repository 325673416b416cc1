#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* The version and the transports that are there, as one text. */
const char* ucp_describe(void);

#ifdef __cplusplus
}
#endif
