/* For LD_PRELOAD: the wall clock an hour late. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);

    if (result == 0 && clock == CLOCK_REALTIME)
        now->tv_sec -= 3600;
    return result;
}
