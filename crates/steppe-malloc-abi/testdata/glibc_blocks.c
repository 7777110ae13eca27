/* Blocks of glibc's own malloc that are freed, grown and measured by the functions that a program meets. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>

#include "check.h"

static void *(*their_malloc)(size_t);
static void *(*their_aligned)(size_t, size_t);
static void (*their_free)(void *);
static size_t (*their_usable)(void *);
static struct mallinfo2 (*their_figures)(void);
static int (*owns)(const void *);

static void find_theirs(void) {
  void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  CHECK(library != NULL);
  *(void **)&their_malloc = dlsym(library, "malloc");
  *(void **)&their_aligned = dlsym(library, "memalign");
  *(void **)&their_free = dlsym(library, "free");
  *(void **)&their_usable = dlsym(library, "malloc_usable_size");
  *(void **)&their_figures = dlsym(library, "mallinfo2");
  *(void **)&owns = dlsym(RTLD_DEFAULT, "steppe_malloc_owns");
  CHECK(their_malloc != NULL && their_malloc != malloc && their_free != free && owns != NULL);
}

enum { KEPT = 1000 };
static const size_t SIZES[] = {0, 1, 24, 25, 1000, 5000, 50000, 120000, 200000, 1 << 20, 40 << 20};
enum { COUNT = sizeof SIZES / sizeof *SIZES };

/* All of them in the long tier, a fifth otherwise: a leak of one round shows in both. */
static int rounds(int all) {
  const char *tier = getenv("STEPPE_LONG");
  return tier != NULL && strcmp(tier, "1") == 0 ? all : all / 5;
}

static size_t in_use(void) {
  struct mallinfo2 figures = their_figures();
  return figures.uordblks + figures.hblkhd;
}

/* Freed is freed: what glibc counts as in use does not grow. Its caches hold a little. */
static void free_all(void) {
  static char *blocks[KEPT];
  size_t before = in_use();
  for (int round = 0; round < rounds(50); round++) {
    for (unsigned i = 0; i < KEPT; i++) {
      size_t bytes = SIZES[i % (COUNT - 2)];
      blocks[i] = i % 7 == 0 ? their_aligned(256, bytes) : their_malloc(bytes);
      CHECK(blocks[i] != NULL && !owns(blocks[i]));
      paint(blocks[i], bytes, i);
    }
    for (unsigned i = 0; i < KEPT; i++) free(blocks[(i * 7) % KEPT]);
  }
  CHECK(in_use() < before + (1 << 20));
}

static void mappings(void) {
  size_t before = in_use();
  for (unsigned i = 0; i < 200; i++) {
    size_t align = i % 2 == 0 ? 16 : (size_t)16 << i % 15;
    char *block = their_aligned(align, 40 << 20);
    CHECK(block != NULL);
    block[0] = block[(40 << 20) - 1] = 1;
    errno = 7;
    free(block);
    CHECK(errno == 7);
  }
  CHECK(in_use() < before + (1 << 20));
}

static void usable(void) {
  for (unsigned i = 0; i < COUNT; i++) {
    char *block = their_malloc(SIZES[i]);
    CHECK(block != NULL && malloc_usable_size(block) == their_usable(block));
    memset(block, 1, malloc_usable_size(block));
    free(block);
  }
}

static void grown(void) {
  size_t before = in_use();
  for (int round = 0; round < rounds(20); round++) {
    for (unsigned i = 0; i < COUNT; i++) {
      char *block = their_malloc(SIZES[i]);
      CHECK(block != NULL);
      paint(block, SIZES[i], i);
      block = realloc(block, SIZES[i] * 2 + 100);
      CHECK(block != NULL && owns(block) && is_painted(block, SIZES[i], i));
      free(block);
      /* Shrunk, it may stay where it is. */
      block = their_malloc(SIZES[i] + 1);
      paint(block, SIZES[i] + 1, i);
      block = realloc(block, SIZES[i] / 3 + 1);
      CHECK(block != NULL && is_painted(block, SIZES[i] / 3 + 1, i));
      free(block);
      CHECK(realloc(their_malloc(SIZES[i]), 0) == NULL);
    }
  }
  CHECK(in_use() < before + (1 << 20));
}

static void *in_arena(void *context) {
  ((void (*)(void))context)();
  return NULL;
}

static void *make(void *context) {
  char **blocks = context;
  for (unsigned i = 0; i < KEPT; i++) blocks[i] = their_malloc(SIZES[i % (COUNT - 2)]);
  return NULL;
}

/* Threads have arenas of their own, away from the program break. */
static void threads(void) {
  pthread_t thread;
  void (*const all[])(void) = {free_all, usable, grown};
  for (unsigned i = 0; i < 3; i++) {
    CHECK(pthread_create(&thread, NULL, in_arena, (void *)all[i]) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  static char *blocks[KEPT];
  size_t before = in_use();
  for (int round = 0; round < rounds(20); round++) {
    CHECK(pthread_create(&thread, NULL, make, blocks) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    for (unsigned i = 0; i < KEPT; i++) free(blocks[i]);
  }
  CHECK(in_use() < before + (4 << 20));
}

/* An arena of more than one heap: each names the arena in the first. */
static void *fill(void *context) {
  char **blocks = context;
  for (unsigned i = 0; i < 2000; i++) CHECK((blocks[i] = their_malloc(100000)) != NULL);
  return NULL;
}

static void heaps(void) {
  static char *blocks[2000];
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, fill, blocks) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  for (unsigned i = 0; i < 2000; i++) {
    CHECK(malloc_usable_size(blocks[i]) == their_usable(blocks[i]));
    free(blocks[i]);
  }
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"free", free_all}, {"mappings", mappings}, {"usable", usable}, {"grown", grown},
      {"threads", threads}, {"heaps", heaps}, {NULL, NULL},
  };
  find_theirs();
  return run_case(cases, argc, argv);
}
