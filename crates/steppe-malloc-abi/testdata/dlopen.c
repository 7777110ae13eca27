/* The library is opened while the program runs: argv[1] is its path, argv[2] `local` or `global`. Its
 * functions are called by the names that it exports, and threads end after it was closed. */
#include <dlfcn.h>
#include <pthread.h>

#include "check.h"

static void *(*their_malloc)(size_t);
static void *(*their_realloc)(void *, size_t);
static void (*their_free)(void *);
static int (*their_owns)(const void *);
static pthread_barrier_t closed;

static void work(unsigned seed) {
  static __thread char *blocks[500];
  for (unsigned i = 0; i < 500; i++) {
    size_t bytes = (i * 37 + seed) % 5000 + 1;
    blocks[i] = their_malloc(bytes);
    CHECK(blocks[i] != NULL && their_owns(blocks[i]));
    paint(blocks[i], bytes, i);
    blocks[i] = their_realloc(blocks[i], bytes * 2);
    CHECK(is_painted(blocks[i], bytes, i));
  }
  for (unsigned i = 0; i < 500; i++) their_free(blocks[i]);
  /* The program's own stays the C library's. */
  void *own = malloc(100);
  CHECK(!their_owns(own));
  free(own);
}

static void *in_thread(void *context) {
  work((unsigned)(uintptr_t)context);
  pthread_barrier_wait(&closed);
  pthread_barrier_wait(&closed);
  return NULL;
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  int scope = strcmp(argv[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  pthread_t threads[4];
  CHECK(pthread_barrier_init(&closed, NULL, 5) == 0);
  for (int round = 0; round < 3; round++) {
    void *library = dlopen(argv[1], RTLD_NOW | scope);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    *(void **)&their_malloc = dlsym(library, "malloc");
    *(void **)&their_realloc = dlsym(library, "realloc");
    *(void **)&their_free = dlsym(library, "free");
    *(void **)&their_owns = dlsym(library, "steppe_malloc_owns");
    CHECK(their_malloc != NULL && their_malloc != malloc && their_owns != NULL);
    work(1);
    for (uintptr_t i = 0; i < 4; i++)
      CHECK(pthread_create(&threads[i], NULL, in_thread, (void *)i) == 0);
    pthread_barrier_wait(&closed);
    CHECK(dlclose(library) == 0);
    pthread_barrier_wait(&closed);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  }
  return 0;
}
