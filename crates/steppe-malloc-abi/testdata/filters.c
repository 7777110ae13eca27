/* A program that forbids system calls on pain of death, once it has allocated a little. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "check.h"

#ifndef SYS_open
#define SYS_open SYS_openat
#endif
enum { BLOCKS = 20000 };
static char *blocks[BLOCKS];

/* Ends the process at one of these. */
static void forbid(unsigned first, unsigned second) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

/* Twice as much as starts a thread, and as has the control group looked at. */
static void grow(void) {
  for (int turn = 0; turn < 2; turn++) {
    for (int i = 0; i < BLOCKS; i++) {
      CHECK((blocks[i] = malloc(2000)) != NULL);
      memset(blocks[i], 1, 2000);
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    struct timespec pause = {0, 100 * 1000 * 1000};
    nanosleep(&pause, NULL);
  }
}

static void threads(void) {
  forbid(SYS_clone, SYS_clone3);
  grow();
}

static void files(void) {
  forbid(SYS_openat, SYS_open);
  grow();
}

/* The library's thread runs already. */
static void files_later(void) {
  grow();
  forbid(SYS_openat, SYS_open);
  grow();
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"threads", threads}, {"files", files}, {"files_later", files_later}, {NULL, NULL}};
  return run_case(cases, argc, argv);
}
