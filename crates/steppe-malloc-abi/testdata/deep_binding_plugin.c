/* A library that is opened: it allocates, frees and opens another by the functions that it meets. */
#include <dlfcn.h>

#include "deep_binding.h"

static void *allocate(size_t bytes) { return malloc(bytes); }
static void *grow(void *block, size_t bytes) { return realloc(block, bytes); }
static void release(void *block) { free(block); }

/* Calls and not jumps: the return address is here. */
static void *open_next(const char *name, int flags) {
  void *volatile library = dlopen(name, flags);
  return library;
}

static void *open_by(void *(*opener)(const char *, int), const char *name, int flags) {
  void *volatile library = opener(name, flags);
  return library;
}

extern const struct plugin plugin;
const struct plugin plugin = {allocate, grow, release, open_next, open_by};
