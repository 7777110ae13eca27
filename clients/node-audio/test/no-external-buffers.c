/* Node.js as Electron has it: memory of an addon may not become a buffer. Preloaded, it answers in place of the functions
 * of Node-API that make one, which an addon looks up by name, and says so on standard error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* napi_no_external_buffers_allowed */
static int refused(void) {
  fputs("an external buffer is refused\n", stderr);
  return 22;
}

void *dlsym(void *handle, const char *name) {
  static void *(*real)(void *, const char *);
  /* x86-64's first version, then arm64's. */
  if (real == NULL) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (real == NULL) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
  if (strncmp(name, "napi_create_external_", 21) != 0) return real(handle, name);
  fprintf(stderr, "in place of %s\n", name);
  return (void *)refused;
}
