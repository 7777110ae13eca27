/* fork under load: threads allocate and free what others allocated, and children begin to allocate at
 * once, in their only thread and in new ones. argv[1] is how often. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

enum { THREADS = 3, SHARED = 64 };
static _Atomic(char *) shared[SHARED];
static atomic_int stop;

static size_t size_of(unsigned random) {
  return random % 64 == 0 ? random % 2000000 : random % 16 == 0 ? random % 60000 : random % 900;
}

static void churn(unsigned seed, int steps) {
  unsigned random = seed * 2654435761u + 1;
  for (int step = 0; step < steps; step++) {
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    size_t bytes = size_of(random >> 6) + 2;
    char *block = random % 4 == 0 ? calloc(1, bytes) : malloc(bytes);
    CHECK(block != NULL);
    block[0] = 1;
    block[bytes - 1] = 2;
    /* What another thread put there is freed here. */
    free(atomic_exchange(&shared[random % SHARED], block));
  }
}

static void *load(void *context) {
  unsigned seed = (unsigned)(uintptr_t)context;
  while (!atomic_load(&stop)) churn(seed++, 200);
  return NULL;
}

static void *in_child(void *context) {
  churn((unsigned)(uintptr_t)context, 500);
  return NULL;
}

static void child(unsigned number) {
  /* A child that hangs is a failure, not a wait for ever. */
  alarm(60);
  churn(number, 500);
  pthread_t threads[2];
  for (uintptr_t i = 0; i < 2; i++)
    CHECK(pthread_create(&threads[i], NULL, in_child, (void *)i) == 0);
  churn(number + 1, 200);
  for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  if (number % 10 == 0) {
    /* And a child of the child. */
    pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    if (grandchild == 0) {
      churn(number + 2, 300);
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
  }
  /* Every tenth ends as programs do, with destructors. */
  if (number % 10 == 5) exit(0);
  _exit(0);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  unsigned forks = (unsigned)atoi(argv[1]);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, load, (void *)(i * 1000 + 1)) == 0);
  for (unsigned number = 0; number < forks; number++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) child(number);
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    churn(number, 100);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  return 0;
}
