/* Mistakes of a program, one case each. The pointer that a message has to name is printed first. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "check.h"

/* The compiler may not see what is done to a block. */
static void *hidden(void *pointer) {
  void *volatile copy = pointer;
  return copy;
}

static void announce(const void *pointer) {
  char text[64];
  int len = snprintf(text, sizeof text, "%p\n", pointer);
  CHECK(write(1, text, (size_t)len) == len);
}

static void twice(size_t bytes) {
  char *block = malloc(bytes), *other = malloc(bytes);
  announce(block);
  free(block);
  free(other);
  free(hidden(block));
}

static void double_free(void) { twice(100); }
static void double_free_medium(void) { twice(40000); }
static void freed_large(void) { twice(1 << 20); }
static void freed_huge(void) { twice(8 << 20); }

static void middle_of(size_t bytes, size_t offset) {
  char *block = malloc(bytes);
  announce(block + offset);
  free(hidden(block + offset));
}

static void middle(void) { middle_of(200, 16); }
static void middle_odd(void) { middle_of(200, 7); }
static void middle_medium(void) { middle_of(60000, 4096); }
static void middle_large(void) { middle_of(3 << 20, 4096); }

static void stack(void) {
  char local[64] __attribute__((aligned(16))) = {0};
  announce(local);
  free(hidden(local));
}

static void global(void) {
  static char global[64] __attribute__((aligned(16)));
  announce(global);
  free(hidden(global));
}

static void realloc_freed(void) {
  char *block = malloc(100);
  announce(block);
  free(block);
  void *moved = realloc(hidden(block), 5000);
  free(moved);
}

/* Two blocks of a slab, the second right behind the first. */
enum { COUNT = 400, BYTES = 96 };
static char *blocks[COUNT];

static void neighbours(char **first, char **second) {
  size_t distance = SIZE_MAX;
  for (unsigned i = 0; i < COUNT; i++) blocks[i] = memset(malloc(BYTES), 1, BYTES);
  for (unsigned i = 0; i < COUNT; i++) {
    for (unsigned k = 0; k < COUNT; k++) {
      if (blocks[k] <= blocks[i] || (size_t)(blocks[k] - blocks[i]) >= distance) continue;
      distance = (size_t)(blocks[k] - blocks[i]);
      *first = blocks[i];
      *second = blocks[k];
    }
  }
  CHECK(distance < 4 * BYTES);
}

static void overrun(char *first, const char *second) {
  char *volatile to = first;
  for (size_t i = BYTES; i < (size_t)(second - first) + 16; i++) to[i] = 'x';
}

/* Behind the block is a free one: found when it is handed out. */
static void overrun_into_free(void) {
  char *first = NULL, *second = NULL;
  neighbours(&first, &second);
  announce(second);
  free(second);
  overrun(first, second);
  for (int i = 0; i < 100000; i++) CHECK(malloc(BYTES) != NULL);
}

/* Behind the block is one in use: found when either is freed. */
static void overrun_into_live(void) {
  char *first = NULL, *second = NULL;
  neighbours(&first, &second);
  announce(first);
  announce(second);
  overrun(first, second);
  free(second);
  free(first);
}

/* A byte too much, the most common overrun: into what lies between, or behind. */
static void overrun_by_one(void) {
  char *block = malloc(100);
  size_t usable = malloc_usable_size(block);
  announce(block);
  announce(block + usable);
  ((char *)hidden(block))[usable] ^= 0x55;
  free(block);
  for (int i = 0; i < 100000; i++) CHECK(malloc(100) != NULL);
}

static void write_after_free(void) {
  char *block = malloc(BYTES);
  announce(block);
  free(block);
  memset(hidden(block), 'y', 32);
  for (int i = 0; i < 100000; i++) CHECK(malloc(BYTES) != NULL);
}

/* One thread frees twice and goes on; another's blocks are not written to. */
static atomic_int phase;

static void *keep_canaries(void *context) {
  (void)context;
  enum { KEPT = 2000 };
  static char *kept[KEPT];
  for (unsigned i = 0; i < KEPT; i++) {
    kept[i] = malloc(64);
    CHECK(kept[i] != NULL);
    paint(kept[i], 64, i);
    if (i == KEPT / 2) atomic_store(&phase, 1);
  }
  while (atomic_load(&phase) != 2) {
    /* More come and go meanwhile. */
    for (unsigned i = 0; i < KEPT; i += 2) {
      CHECK(is_painted(kept[i], 64, i));
      free(kept[i]);
      kept[i] = malloc(64);
      CHECK(kept[i] != NULL);
      paint(kept[i], 64, i);
    }
  }
  for (unsigned i = 0; i < KEPT; i++) {
    CHECK(is_painted(kept[i], 64, i));
    free(kept[i]);
  }
  return NULL;
}

static void canaries(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, keep_canaries, NULL) == 0);
  while (atomic_load(&phase) == 0) {
  }
  char *mine[1000];
  for (unsigned i = 0; i < 1000; i++) mine[i] = memset(malloc(64), 0xee, 64);
  for (unsigned i = 0; i < 1000; i += 3) free(mine[i]);
  free(hidden(mine[300]));
  for (int round = 0; round < 20; round++) {
    for (unsigned i = 0; i < 1000; i += 3) mine[i] = memset(malloc(64), 0xee, 64);
    for (unsigned i = 0; i < 1000; i += 3)
      if (i != 300) free(mine[i]);
  }
  atomic_store(&phase, 2);
  CHECK(pthread_join(thread, NULL) == 0);
}

/* Memory that can't be read, and what looks like a block of glibc but for where it is. */
static void foreign_to_all(void) {
  enum { PAGE = 1 << 16 };
  char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && mprotect(pages + PAGE, PAGE, PROT_NONE) == 0);
  CHECK(munmap(pages + 2 * PAGE, PAGE) == 0);
  static size_t chunk[8] __attribute__((aligned(64)));
  /* Of the main arena, of a thread's, and with an odd size; the next chunk calls it in use. */
  static const size_t headers[] = {33, 37, 41, SIZE_MAX, 0};
  void *wrong[] = {(void *)16, (void *)-32, pages + PAGE + 32, pages + 2 * PAGE + 32, pages + PAGE};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    announce(wrong[i]);
    CHECK(malloc_usable_size(wrong[i]) == 0);
    free(hidden(wrong[i]));
  }
  announce(chunk + 2);
  for (unsigned i = 0; i < sizeof headers / sizeof *headers; i++) {
    chunk[1] = headers[i];
    chunk[5] = 33;
    CHECK(malloc_usable_size(chunk + 2) == 0);
    free(hidden(chunk + 2));
  }
}

/* Pointers that never were ours, and then work as usual. */
static void foreign(void) {
  static char global[64] __attribute__((aligned(16)));
  char local[64] __attribute__((aligned(16))) = {0};
  announce(global);
  announce(local);
  free(hidden(global));
  free(hidden(local));
  foreign_to_all();
  for (int i = 0; i < 1000; i++) {
    char *block = malloc(64);
    CHECK(block != NULL && block != local && block != global);
    memset(block, 1, 64);
    if (i % 2 == 0) free(block);
  }
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"double_free", double_free},
      {"double_free_medium", double_free_medium},
      {"freed_large", freed_large},
      {"freed_huge", freed_huge},
      {"middle", middle},
      {"middle_odd", middle_odd},
      {"middle_medium", middle_medium},
      {"middle_large", middle_large},
      {"stack", stack},
      {"global", global},
      {"realloc_freed", realloc_freed},
      {"overrun_into_free", overrun_into_free},
      {"overrun_into_live", overrun_into_live},
      {"overrun_by_one", overrun_by_one},
      {"write_after_free", write_after_free},
      {"canaries", canaries},
      {"foreign", foreign},
      {NULL, NULL},
  };
  return run_case(cases, argc, argv);
}
