/* A system whose wall clock is set while a program runs. Preloaded, it adds an hour to the time of day as soon as the file that
 * CLOCK_STEP names is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (real == NULL) real = dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(clock, time);
  const char *file = getenv("CLOCK_STEP");
  if (clock == CLOCK_REALTIME && file != NULL && access(file, F_OK) == 0) time->tv_sec += 3600;
  return status;
}
