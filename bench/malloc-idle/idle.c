/* Allocates and touches 200 MB, frees, and then asks for nothing more: prints the resident memory at its
 * highest and after a time of idleness, in MB. Usage: idle CASE SECONDS */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 100000, SMALL = 2000, THREADS = 4 };

static char *blocks[BLOCKS];
static pthread_barrier_t freed;

/* By system calls alone: the measurement may not allocate. */
static long resident_mb(void) {
  char text[128];
  int file = open("/proc/self/statm", O_RDONLY);
  ssize_t len = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (len <= 0) _exit(2);
  close(file);
  text[len] = 0;
  long pages = strtol(strchr(text, ' ') + 1, NULL, 10);
  return pages * sysconf(_SC_PAGESIZE) / 1000000;
}

static void allocate(int first, int last, size_t bytes) {
  for (int i = first; i < last; i++) {
    blocks[i] = malloc(bytes);
    if (blocks[i] == NULL) _exit(3);
    memset(blocks[i], 1, bytes);
  }
}

/* Frees all but every keep-th block. */
static void release(int first, int last, int keep) {
  for (int i = first; i < last; i++) {
    if (keep == 0 || i % keep != 0) free(blocks[i]);
  }
}

/* A pool's thread: allocates and frees its part, and sleeps from then on. */
static void *worker(void *argument) {
  int part = BLOCKS / THREADS, first = (int)(long)argument * part;
  allocate(first, first + part, SMALL);
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&freed);
  release(first, first + part, 0);
  pthread_barrier_wait(&freed);
  for (;;) pause();
}

static long in_threads(void) {
  pthread_barrier_init(&freed, NULL, THREADS + 1);
  for (long i = 0; i < THREADS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, (void *)i) != 0) _exit(4);
  }
  pthread_barrier_wait(&freed);
  long peak = resident_mb();
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&freed);
  return peak;
}

static long alone(int count, size_t bytes, int keep) {
  allocate(0, count, bytes);
  long peak = resident_mb();
  release(0, count, keep);
  return peak;
}

int main(int count, char **arguments) {
  if (count != 3) return 1;
  const char *name = arguments[1];
  long peak;
  if (strcmp(name, "small") == 0) peak = alone(BLOCKS, SMALL, 0);
  else if (strcmp(name, "scattered") == 0) peak = alone(BLOCKS, SMALL, 50);
  else if (strcmp(name, "medium") == 0) peak = alone(1000, 200000, 0);
  else if (strcmp(name, "large") == 0) peak = alone(10, 20000000, 0);
  else if (strcmp(name, "threads") == 0) peak = in_threads();
  else return 1;
  struct timespec rest = {atoi(arguments[2]), 0};
  while (nanosleep(&rest, &rest) != 0) {}
  long idle = resident_mb();
  char text[64];
  int len = snprintf(text, sizeof text, "%ld %ld\n", peak, idle);
  return write(STDOUT_FILENO, text, (size_t)len) == len ? 0 : 1;
}
