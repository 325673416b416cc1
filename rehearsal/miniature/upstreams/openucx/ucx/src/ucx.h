#pragma once

#include <stddef.h>

unsigned ucm_events(void);
size_t ucs_config(const char* text, char* result, size_t size);
unsigned ucs_stats(unsigned count);
const char* uct_transports(void);
