/* What is resident of this process, and sets of addresses, without a call of the allocator. */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <fcntl.h>
#include <sys/mman.h>

#include "check.h"

/* Anonymous resident bytes. Allocates nothing. */
static inline long resident(void) { return proc_number("/proc/self/smaps_rollup", "\nAnonymous:") * 1024; }

/* Zeroed memory that is not the allocator's, nor anonymous. */
static inline void *map(size_t len) {
  void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(at != MAP_FAILED);
  return at;
}

/* Adds a number above 0 to a set. False: it was there. */
static inline int is_new(uintptr_t *set, long slots, uintptr_t number) {
  for (uintptr_t at = number * 0x9E3779B97F4A7C15u >> 20;; at++) {
    uintptr_t *slot = &set[at % (uintptr_t)slots];
    if (*slot == number) return 0;
    if (*slot == 0) return *slot = number, 1;
  }
}

#endif
