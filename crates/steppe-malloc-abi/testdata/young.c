/* Memory that is freed while a purge gives back what is older, beside it: `calloc` of it is zero. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 2, SMALL = 6000, SMALL_BYTES = 100, LARGE_BYTES = 192 << 10, UNIT_BYTES = 32 << 10 };

void steppe_malloc_on_idle(void) __attribute__((weak));

static atomic_bool is_over;

/* Takes and gives back runs of all lengths, in the chunk that is purged too. */
static void *churn(void *seed) {
  unsigned state = *(unsigned *)seed;
  while (!atomic_load(&is_over)) {
    char *run = malloc(33000 + UNIT_BYTES * (rand_r(&state) % 12));
    CHECK(run != NULL);
    *(volatile char *)run = 1;
    free(run);
  }
  return NULL;
}

static void round_of(unsigned decay_ms) {
  static char *small[SMALL];
  for (int i = 0; i < SMALL; i++) {
    CHECK((small[i] = malloc(SMALL_BYTES)) != NULL);
    memset(small[i], 1, SMALL_BYTES);
  }
  char *large = malloc(LARGE_BYTES);
  CHECK(large != NULL);
  memset(large, 0xaa, LARGE_BYTES);
  for (int i = 0; i < SMALL; i++) free(small[i]);
  CHECK(steppe_malloc_on_idle != NULL);
  steppe_malloc_on_idle();
  /* Slabs are due soon; what is freed now is not. */
  usleep(decay_ms * 900);
  free(large);
  usleep(decay_ms * 200 + 1000);
  char *zeros = calloc(1, LARGE_BYTES);
  CHECK(zeros != NULL);
  CHECK(is_zero(zeros, LARGE_BYTES));
  free(zeros);
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  pthread_t threads[THREADS];
  unsigned seeds[THREADS];
  for (int i = 0; i < THREADS; i++) {
    seeds[i] = i;
    CHECK(pthread_create(&threads[i], NULL, churn, &seeds[i]) == 0);
  }
  for (int i = 0; i < atoi(argv[2]); i++) round_of(atoi(argv[1]));
  atomic_store(&is_over, true);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  return 0;
}
