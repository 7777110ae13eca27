/* A program that carries another allocator, linked to jemalloc: whoever stands first serves malloc, and
 * jemalloc's own functions go on beside it. */
#include <jemalloc/jemalloc.h>
#include <malloc.h>
#include <pthread.h>

#include "check.h"

static void *work(void *context) {
  unsigned seed = (unsigned)(uintptr_t)context;
  for (unsigned i = 0; i < 20000; i++) {
    size_t bytes = (i * 131 + seed) % 20000 + 1;
    char *standard = malloc(bytes), *extended = mallocx(bytes, 0);
    CHECK(standard != NULL && extended != NULL && standard != extended);
    standard[bytes - 1] = 1;
    extended[bytes - 1] = 2;
    standard = realloc(standard, bytes * 2);
    extended = rallocx(extended, bytes * 2, 0);
    CHECK(standard[bytes - 1] == 1 && extended[bytes - 1] == 2);
    /* jemalloc lacks these: a block is freed by the allocator that it came from all the same. */
    standard = reallocarray(standard, 3, bytes);
    CHECK(standard != NULL && standard[bytes - 1] == 1);
    free(standard);
    dallocx(extended, 0);
    if (i % 16 == 0) free(memset(pvalloc(bytes), 3, bytes));
  }
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  return 0;
}
