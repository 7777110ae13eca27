/* Memory runs out, and comes back: null with ENOMEM, never another end. Run under `ulimit -v`, or
 * with a limit that the program sets itself while it runs. */
#include <pthread.h>
#include <sys/resource.h>

#include "check.h"

struct block {
  struct block *next;
  size_t bytes;
};

/* Takes blocks until there is no more; returns how many. The list is inside of them. */
static long exhaust(struct block **list, size_t bytes) {
  long count = 0;
  for (;;) {
    errno = 0;
    struct block *block = malloc(bytes);
    if (block == NULL) {
      CHECK(errno == ENOMEM);
      return count;
    }
    memset(block, 0x5a, bytes);
    block->next = *list;
    block->bytes = bytes;
    *list = block;
    CHECK(++count < 100000000);
  }
}

static void release(struct block **list) {
  while (*list != NULL) {
    struct block *block = *list;
    const char *content = (const char *)(block + 1);
    CHECK(block->bytes == sizeof *block || content[0] == 0x5a);
    CHECK(((const char *)block)[block->bytes - 1] == 0x5a || block->bytes == sizeof *block);
    *list = block->next;
    free(block);
  }
}

static void refused_by_all(void) {
  const size_t large = (size_t)1 << 40;
  void *slot = NULL;
  errno = 0;
  CHECK(calloc(large, 1) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(aligned_alloc(4096, large) == NULL && errno == ENOMEM);
  CHECK(posix_memalign(&slot, 4096, large) == ENOMEM && slot == NULL);
  void *block = malloc(100);
  if (block != NULL) {
    paint(block, 100, 1);
    errno = 0;
    CHECK(realloc(block, large) == NULL && errno == ENOMEM);
    CHECK(is_painted(block, 100, 1));
    free(block);
  }
}

static const size_t SIZES[] = {16, 40, 1000, 5000, 20000, 100000, 1000000, 3000000, 20000000};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

/* What one size took is there for the next: at least a quarter of the limit. */
static void one_size_after_the_other(size_t limit_bytes) {
  for (int round = 0; round < 2; round++) {
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
      struct block *list = NULL;
      long count = exhaust(&list, SIZES[i]);
      refused_by_all();
      size_t taken = (size_t)count * SIZES[i];
      if (taken < limit_bytes / 4)
        fprintf(stderr, "round %d, %zu bytes: only %ld blocks\n", round, SIZES[i], count);
      CHECK(taken >= limit_bytes / 4);
      release(&list);
    }
  }
}

static void *exhaust_in_thread(void *context) {
  (void)context;
  for (unsigned i = 0; i < 60; i++) {
    struct block *list = NULL;
    exhaust(&list, SIZES[(i * 5) % SIZE_COUNT]);
    release(&list);
  }
  return NULL;
}

/* Several threads find memory gone at any moment. */
static void threads(void) {
  pthread_t all[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&all[i], NULL, exhaust_in_thread, NULL) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(all[i], NULL) == 0);
  struct block *list = NULL;
  CHECK(exhaust(&list, 1000) > 1000);
  release(&list);
}

static void limit_address_space(size_t bytes) {
  struct rlimit limit = {bytes, bytes};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  size_t limit_bytes = strtoul(argv[2], NULL, 10);
  if (strcmp(argv[1], "from_the_start") == 0) {
    one_size_after_the_other(limit_bytes);
  } else if (strcmp(argv[1], "while_running") == 0) {
    /* Into the limit with memory in use, and some of it free. */
    static void *blocks[1000];
    for (unsigned i = 0; i < 1000; i++) blocks[i] = malloc(i * 10);
    for (unsigned i = 0; i < 1000; i += 2) free(blocks[i]);
    limit_address_space(limit_bytes);
    struct block *list = NULL;
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
      exhaust(&list, SIZES[i]);
      refused_by_all();
    }
    release(&list);
    for (unsigned i = 1; i < 1000; i += 2) free(blocks[i]);
    CHECK(exhaust(&list, 1000) > 10);
    release(&list);
  } else if (strcmp(argv[1], "threads") == 0) {
    threads();
  } else {
    return 3;
  }
  return 0;
}
