/* Threads that sleep with free blocks in their caches. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

enum { THREADS = 100, SIZES = 60, EACH = 24, MIB = 1 << 20, ALLOWED = 4 * MIB };
/* A cache keeps a block of each class up to 1 KiB, and each may hold a page of its own. */
enum { ALLOWED_A_THREAD = 112 << 10 };

static pthread_barrier_t barrier;

/* Fills the cache of the calling thread with blocks of all classes up to `size_max`. */
static void fill(size_t size_max) {
  char *blocks[SIZES * EACH];
  int count = 0;
  for (size_t size = 16; size <= size_max; size += size < 1024 ? 48 : size / 4)
    for (int i = 0; i < EACH; i++) {
      CHECK(count < SIZES * EACH);
      CHECK((blocks[count] = malloc(size)) != NULL);
      memset(blocks[count++], 1, size);
    }
  while (count > 0) free(blocks[--count]);
}

static void *fill_and_sleep(void *unused) {
  fill(16); /* The stack is resident, and there is a heap. */
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  fill(32768);
  pthread_barrier_wait(&barrier);
  pause();
  return unused;
}

static void start_threads(void) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, 256 << 10) == 0);
  CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, fill_and_sleep, NULL) == 0);
  }
}

/* A wait that hangs is a failure. */
static void sleeps_at(long allowed) {
  struct timespec pause = {0, 20 * 1000 * 1000};
  long now = 0;
  for (int look = 0; look < 3000; look++) {
    now = private_bytes();
    if (now <= allowed) return;
    nanosleep(&pause, NULL);
  }
  printf("%ld KiB stay, %ld are allowed\n", now / 1024, allowed / 1024);
  exit(1);
}

/* What threads freed goes back while all of them sleep. */
static void caches(void) {
  start_threads();
  pthread_barrier_wait(&barrier);
  long before = private_bytes();
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  sleeps_at(before + ALLOWED + THREADS * ALLOWED_A_THREAD);
}

/* The child of a process whose threads sleep has copies of their caches. */
static void copies(void) {
  start_threads();
  pthread_barrier_wait(&barrier);
  long before = private_bytes();
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    /* Its own requests start a thread. */
    fill(32768);
    sleeps_at(before + ALLOWED + THREADS * 2 * ALLOWED_A_THREAD);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void *keep_then_free(void *unused) {
  enum { KEPT = 16 };
  char *blocks[KEPT];
  for (int i = 0; i < KEPT; i++) {
    CHECK((blocks[i] = malloc(8000)) != NULL);
    memset(blocks[i], 1, 8000);
  }
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  /* Into the cache, without a slow path. */
  for (int i = 0; i < 4; i++) free(blocks[i]);
  pthread_barrier_wait(&barrier);
  pause();
  return unused;
}

/* Blocks that are freed into caches when nothing else waits any more. */
static void late(void) {
  CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, keep_then_free, NULL) == 0);
  }
  pthread_barrier_wait(&barrier);
  struct timespec quiet = {1, 0};
  nanosleep(&quiet, NULL);
  long before = private_bytes();
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  sleeps_at(before - THREADS * 3 * 8000 / 2);
}

static int is_over;

/* Sleeps just as long as it takes to be swept, or a little less, and uses its cache again. */
static void *sleep_and_wake(void *number) {
  unsigned seed = (unsigned)(uintptr_t)number;
  char *blocks[200];
  size_t sizes[200];
  for (unsigned turn = 0; !__atomic_load_n(&is_over, __ATOMIC_RELAXED); turn++) {
    unsigned count = 20 + (seed + turn) % 180;
    for (unsigned i = 0; i < count; i++) {
      sizes[i] = 1 + (i * 2654435761u + turn * 40503u + seed) % (i % 5 == 0 ? 30000 : 900);
      CHECK((blocks[i] = malloc(sizes[i])) != NULL);
      paint(blocks[i], sizes[i], seed + i);
    }
    for (unsigned i = 0; i < count; i++) {
      CHECK(is_painted(blocks[i], sizes[i], seed + i));
      free(blocks[i]);
    }
    struct timespec pause = {0, ((seed * 7 + turn) % 9) * 3 * 1000 * 1000};
    nanosleep(&pause, NULL);
  }
  return NULL;
}

/* Caches are swept again and again while their threads wake up: no block is handed out twice. */
static void woken(void) {
  enum { SLEEPERS = 8 };
  pthread_t threads[SLEEPERS];
  for (uintptr_t i = 0; i < SLEEPERS; i++)
    CHECK(pthread_create(&threads[i], NULL, sleep_and_wake, (void *)(i * 1000)) == 0);
  struct timespec pause = {3, 0};
  nanosleep(&pause, NULL);
  __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < SLEEPERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"caches", caches},
      {"copies", copies},
      {"late", late},
      {"woken", woken},
      {NULL, NULL},
  };
  return run_case(cases, argc, argv);
}
