/* A program that opens a library by a name that the linker knows, whatever it is linked like itself. */
#include <dlfcn.h>

#include "check.h"

int main(void) {
  void *library = dlopen("libm.so.6", RTLD_NOW);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  double (*cosine)(double);
  *(void **)&cosine = dlsym(library, "cos");
  CHECK(cosine != NULL && cosine(0) == 1);
  free(malloc(10));
  return 0;
}
