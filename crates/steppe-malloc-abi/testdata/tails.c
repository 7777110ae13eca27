/* Large blocks that get the mappings of longer ones: what is behind them goes back, and nothing else. */
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include "check.h"

enum { MIB = 1 << 20, PAGE = 4096, SLOTS = 2, THREADS = 4, ROUNDS = 1500, LONG = 40 * MIB, SHORT = 6 * MIB };

static void wait_a_moment(void) {
  struct timespec pause = {0, 20 * 1000 * 1000};
  nanosleep(&pause, NULL);
}

struct block {
  char *at;
  size_t bytes;
  char tag;
};

static unsigned next_random(unsigned *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

/* The compiler leaves out what it sees nobody read. */
static void fill(void *block, int byte, size_t bytes) {
  memset(block, byte, bytes);
  __asm__ volatile("" : : "r"(block) : "memory");
}

static void mark(struct block *block) {
  for (size_t i = 0; i < block->bytes; i += PAGE) block->at[i] = block->tag;
  block->at[block->bytes - 1] = block->tag;
}

static void is_marked(const struct block *block, size_t bytes) {
  for (size_t i = 0; i < bytes; i += PAGE) CHECK(block->at[i] == block->tag);
}

/* Blocks change their lengths all the time, while tails go back. */
static void *change(void *seed) {
  unsigned state = (unsigned)(uintptr_t)seed * 7919;
  struct block blocks[SLOTS] = {{0}};
  for (int round = 0; round < ROUNDS; round++) {
    struct block *block = &blocks[next_random(&state) % SLOTS];
    size_t bytes = MIB + next_random(&state) % (7 * MIB), old = block->bytes;
    if (block->at != NULL) is_marked(block, old);
    if (block->at != NULL && round % 3 == 0) {
      CHECK((block->at = realloc(block->at, bytes)) != NULL);
      is_marked(block, bytes < old ? bytes : old);
    } else {
      free(block->at);
      int zeroed = round % 7 == 0;
      CHECK((block->at = zeroed ? calloc(1, bytes) : malloc(bytes)) != NULL);
      for (size_t i = 0; zeroed && i < bytes; i += PAGE) CHECK(block->at[i] == 0);
    }
    block->bytes = bytes;
    block->tag = (char)(round % 127 + 1);
    mark(block);
  }
  for (int i = 0; i < SLOTS; i++) free(blocks[i].at);
  return NULL;
}

static _Atomic int is_done;

static void *trim(void *context) {
  while (!is_done) malloc_trim(0);
  return context;
}

static void content(void) {
  pthread_t threads[THREADS], trimming;
  CHECK(pthread_create(&trimming, NULL, trim, NULL) == 0);
  for (uintptr_t t = 0; t < THREADS; t++) CHECK(pthread_create(&threads[t], NULL, change, (void *)(t + 1)) == 0);
  for (int t = 0; t < THREADS; t++) CHECK(pthread_join(threads[t], NULL) == 0);
  is_done = 1;
  CHECK(pthread_join(trimming, NULL) == 0);
  while (mallinfo2().fordblks > 4 * MIB) wait_a_moment();
  CHECK(private_bytes() < 16 * MIB);
}

/* Allocates a block where a longer one was, and has every page of both resident. */
static char *shorter(void) {
  char *block = malloc(LONG);
  CHECK(block != NULL);
  fill(block, 1, LONG);
  free(block);
  CHECK((block = malloc(SHORT)) != NULL);
  fill(block, 2, SHORT);
  CHECK(malloc_usable_size(block) < SHORT + PAGE);
  return block;
}

/* A block grows into its tail, whose pages are there. */
static void grown(void) {
  char *block = shorter();
  long before = private_bytes();
  uintptr_t at = (uintptr_t)block;
  CHECK((block = realloc(block, LONG / 2)) != NULL && (uintptr_t)block == at && block[SHORT - 1] == 2);
  fill(block, 3, LONG / 2);
  CHECK(private_bytes() < before + MIB);
  /* And past it. */
  CHECK((block = realloc(block, 2 * LONG)) != NULL && block[LONG / 2 - 1] == 3);
  fill(block, 4, 2 * LONG);
  CHECK((block = realloc(block, SHORT)) != NULL && block[SHORT - 1] == 4);
  CHECK(private_bytes() < SHORT + 4 * MIB);
  free(block);
}

/* Resident beside locked memory, and counted as free until it is unlocked. */
static void locked(void) {
  char *block = shorter();
  if (mlock(block + SHORT, LONG - SHORT) != 0) _exit(77);
  malloc_trim(0);
  CHECK(mallinfo2().fordblks >= LONG - SHORT);
  CHECK(block[SHORT - 1] == 2);
  CHECK(munlock(block + SHORT, LONG - SHORT) == 0);
  malloc_trim(0);
  CHECK(mallinfo2().fordblks < MIB);
  CHECK(private_bytes() < SHORT + 4 * MIB);
  CHECK(block[SHORT - 1] == 2);
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {{"content", content}, {"grown", grown}, {"locked", locked}, {NULL, NULL}};
  return run_case(cases, argc, argv);
}
