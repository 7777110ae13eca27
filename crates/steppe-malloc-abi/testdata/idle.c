/* What is freed goes back to the system although the program never asks for memory again: each case frees all that it
 * allocated, and then only looks at its resident memory. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

enum { MIB = 1 << 20, ALLOWED = 4 * MIB, BLOCKS_MAX = 100000 };
static char *blocks[BLOCKS_MAX];

/* Private resident memory, in bytes. Allocates nothing. */
static long private_bytes(void) {
  static char text[8192];
  int file = open("/proc/self/status", O_RDONLY);
  CHECK(file >= 0);
  ssize_t len = read(file, text, sizeof text - 1);
  CHECK(len > 0);
  close(file);
  text[len] = 0;
  char *line = strstr(text, "RssAnon:");
  CHECK(line != NULL);
  return atol(line + 8) * 1024;
}

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

/* Waits until no more than `before` and what is allowed is resident: a hung wait is a failure. */
static void sleeps_small(long before) {
  struct timespec pause = {0, 20 * 1000 * 1000};
  long now = 0;
  for (int look = 0; look < 3000; look++) {
    now = private_bytes();
    if (now <= before + ALLOWED) return;
    nanosleep(&pause, NULL);
  }
  printf("%ld MiB stay, %ld at first\n", now / MIB, before / MIB);
  exit(1);
}

static void small(void) {
  long before = private_bytes();
  allocate(BLOCKS_MAX, 2000);
  CHECK(private_bytes() > before + 100 * MIB);
  free_from(0, BLOCKS_MAX, 1);
  sleeps_small(before);
}

static void medium(void) {
  long before = private_bytes();
  allocate(500, 200 * 1000);
  free_from(0, 500, 1);
  sleeps_small(before);
}

static void large(void) {
  long before = private_bytes();
  allocate(5, 20 * MIB);
  free_from(0, 5, 1);
  sleeps_small(before);
}

/* Each second one first: slabs are partly used for a while. */
static void scattered(void) {
  long before = private_bytes();
  allocate(BLOCKS_MAX, 700);
  free_from(0, BLOCKS_MAX, 2);
  free_from(1, BLOCKS_MAX, 2);
  sleeps_small(before);
}

static void shrunk(void) {
  long before = private_bytes();
  allocate(1, 64 * MIB);
  blocks[0] = realloc(blocks[0], 40 * MIB);
  CHECK(blocks[0] != NULL);
  sleeps_small(before + 40 * MIB);
  blocks[0] = realloc(blocks[0], 1000);
  CHECK(blocks[0] != NULL);
  sleeps_small(before);
}

static void *free_all(void *sleeps) {
  free_from(0, BLOCKS_MAX, 1);
  if (sleeps != NULL) pause();
  return NULL;
}

static void freed_by_another(void *sleeps) {
  long before = private_bytes();
  allocate(BLOCKS_MAX, 2000);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, free_all, sleeps) == 0);
  if (sleeps == NULL) CHECK(pthread_join(thread, NULL) == 0);
  sleeps_small(before);
}

static void ended_thread(void) { freed_by_another(NULL); }
static void sleeping_thread(void) { freed_by_another(blocks); }

/* The child of a process with threads, once it has allocated itself. */
static void child(void) {
  long before = private_bytes();
  allocate(BLOCKS_MAX, 2000);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    char *own[200];
    for (int i = 0; i < 200; i++) CHECK((own[i] = malloc(2000)) != NULL);
    for (int i = 0; i < 200; i++) free(own[i]);
    free_from(0, BLOCKS_MAX, 1);
    sleeps_small(before);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
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
      {"small", small},
      {"medium", medium},
      {"large", large},
      {"scattered", scattered},
      {"shrunk", shrunk},
      {"ended_thread", ended_thread},
      {"sleeping_thread", sleeping_thread},
      {"child", child},
      {"namespaced", namespaced},
      {"bare_clone", bare_clone},
      {NULL, NULL},
  };
  return run_case(cases, argc, argv);
}
