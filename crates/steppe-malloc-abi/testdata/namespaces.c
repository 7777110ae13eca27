/* What a process of one thread may do and one of several may not, after the library has had a thread of its own. */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

enum { BLOCKS_MAX = 100000 };
static char *blocks[BLOCKS_MAX];

static void allocate(int count, size_t bytes) {
  for (int i = 0; i < count; i++) {
    blocks[i] = malloc(bytes);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, bytes);
  }
}

static void free_from(int first, int count, int step) {
  for (int i = first; i < count; i += step) free(blocks[i]);
}

/* The child of a bare clone, which runs no handlers of a fork, has no thread to wait for. */
static void bare_clone(void) {
  allocate(BLOCKS_MAX, 2000);
  free_from(0, BLOCKS_MAX, 1);
  long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  CHECK(pid >= 0);
  if (pid == 0) {
    alarm(60);
    CHECK(unshare(CLONE_NEWUSER) == 0);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid((pid_t)pid, &status, 0) == pid && status == 0);
  CHECK(unshare(CLONE_NEWUSER) == 0);
}

/* A program of one thread does what a program of several may not. */
static void namespaced(void) {
  allocate(BLOCKS_MAX, 2000);
  free_from(0, BLOCKS_MAX, 1);
  CHECK(unshare(CLONE_NEWUSER) == 0);
  allocate(BLOCKS_MAX, 2000);
  CHECK(unshare(CLONE_NEWNS) == 0);
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"namespaced", namespaced},
      {"bare_clone", bare_clone},
      {NULL, NULL},
  };
  return run_case(cases, argc, argv);
}
