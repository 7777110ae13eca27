/* A program that goes on when it gets no memory: every null comes with ENOMEM, every block keeps
 * its content. In one thread or, with the argument `threads`, in four. */
#include <malloc.h>
#include <pthread.h>

#include "check.h"
#include "malloc_of_musl.h"

enum { SLOTS = 300, STEPS = 2500 };

static size_t size_of_step(unsigned random) {
  switch (random % 16) {
    case 0: return random % 100 == 0 ? 20000000 : random % 3000000;
    case 1: return random % 300000;
    case 2:
    case 3:
    case 4: return random % 20000;
    default: return random % 700;
  }
}

struct slot {
  void *block;
  size_t bytes;
};

static size_t painted_bytes(size_t bytes) { return bytes < 1000 ? bytes : 1000; }

static void replace(struct slot *slot, unsigned random, unsigned seed) {
  size_t bytes = size_of_step(random >> 8);
  void *block = NULL;
  errno = 0;
  switch (random % 5) {
    case 0: block = calloc(1, bytes); break;
    case 1: block = aligned_alloc((size_t)16 << (random >> 4) % 9, bytes); break;
    case 2:
      block = realloc(slot->block, bytes);
      if (block == NULL && bytes > 0) {
        CHECK(errno == ENOMEM);
        CHECK(is_painted(slot->block, slot->block == NULL ? 0 : painted_bytes(slot->bytes), seed));
        return;
      }
      if (block != NULL && slot->block != NULL) {
        size_t kept = painted_bytes(slot->bytes);
        CHECK(is_painted(block, kept < bytes ? kept : painted_bytes(bytes), seed));
      }
      slot->block = NULL;
      break;
    default: block = malloc(bytes); break;
  }
  CHECK(block != NULL || errno == ENOMEM || bytes == 0);
  if (random % 5 == 0 && block != NULL) CHECK(is_zero(block, bytes));
  errno = 77;
  free(slot->block);
  CHECK(errno == 77);
  slot->block = block;
  slot->bytes = bytes;
  if (block != NULL) paint(block, painted_bytes(bytes), seed);
}

static void *work(void *context) {
  struct slot slots[SLOTS] = {{NULL, 0}};
  unsigned random = 2463534242u + (unsigned)(uintptr_t)context;
  for (int step = 0; step < STEPS; step++) {
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    unsigned at = random % SLOTS;
    if (slots[at].block != NULL)
      CHECK(is_painted(slots[at].block, painted_bytes(slots[at].bytes), at));
    replace(&slots[at], random / SLOTS, at);
    if (step % 500 == 0) malloc_trim(0);
  }
  for (unsigned at = 0; at < SLOTS; at++) {
    if (slots[at].block != NULL)
      CHECK(is_painted(slots[at].block, painted_bytes(slots[at].bytes), at));
    free(slots[at].block);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[4];
  int count = argc > 1 && strcmp(argv[1], "threads") == 0 ? 4 : 0;
  int started = 0;
  /* The C library may get no memory for a thread: then it is fewer. */
  while (started < count &&
         pthread_create(&threads[started], NULL, work, (void *)(uintptr_t)started) == 0)
    started++;
  work((void *)99);
  while (started > 0) CHECK(pthread_join(threads[--started], NULL) == 0);
  CHECK(write(1, "done\n", 5) == 5);
  return 0;
}
