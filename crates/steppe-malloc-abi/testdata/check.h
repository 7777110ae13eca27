/* What the test programs share: a check that ends the program and says where. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes without allocating; the exit code is not 0, and not that of a signal. */
#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      char text[512];                                                                       \
      int len = snprintf(text, sizeof text, "%s:%d: not so: %s (errno %d)\n", __FILE__,     \
                         __LINE__, #condition, errno);                                      \
      ssize_t ignored = write(2, text, (size_t)len);                                        \
      (void)ignored;                                                                        \
      _exit(1);                                                                             \
    }                                                                                       \
  } while (0)

/* Fills a block so that a byte of another block, or of another place, is told. */
static inline void paint(void *block, size_t bytes, unsigned seed) {
  unsigned char *at = (unsigned char *)block;
  for (size_t i = 0; i < bytes; i++) at[i] = (unsigned char)(seed * 131 + i * 7 + (i >> 8));
}

static inline int is_painted(const void *block, size_t bytes, unsigned seed) {
  const unsigned char *at = (const unsigned char *)block;
  for (size_t i = 0; i < bytes; i++)
    if (at[i] != (unsigned char)(seed * 131 + i * 7 + (i >> 8))) return 0;
  return 1;
}

static inline int is_zero(const void *block, size_t bytes) {
  const unsigned char *at = (const unsigned char *)block;
  for (size_t i = 0; i < bytes; i++)
    if (at[i] != 0) return 0;
  return 1;
}

static inline int is_aligned(const void *block, size_t align) {
  return (uintptr_t)block % align == 0;
}

/* The number behind `label` in a file of the kernel's; the first one of the file for an empty label. Allocates nothing. */
static inline long proc_number(const char *path, const char *label) {
  char text[8192];
  int file = open(path, O_RDONLY);
  CHECK(file >= 0);
  ssize_t len = read(file, text, sizeof text - 1);
  CHECK(len > 0);
  close(file);
  text[len] = 0;
  char *at = strstr(text, label);
  CHECK(at != NULL);
  return atol(at + strlen(label));
}

/* Resident memory of this process in bytes. */
static inline size_t resident_bytes(void) {
  return (size_t)proc_number("/proc/self/status", "VmRSS:") * 1024;
}

/* Private resident memory of this process in bytes. */
static inline long private_bytes(void) { return proc_number("/proc/self/status", "RssAnon:") * 1024; }

/* Mapped memory of this process in bytes. */
static inline size_t mapped_bytes(void) {
  return (size_t)proc_number("/proc/self/statm", "") * (size_t)sysconf(_SC_PAGESIZE);
}

/* The case that argv[1] names, from a table that ends with a null name. */
struct test_case {
  const char *name;
  void (*run)(void);
};

static inline int run_case(const struct test_case *cases, int argc, char **argv) {
  for (; argc > 1 && cases->name != NULL; cases++) {
    if (strcmp(cases->name, argv[1]) == 0) {
      cases->run();
      return 0;
    }
  }
  fprintf(stderr, "no such case\n");
  return 3;
}

#endif
