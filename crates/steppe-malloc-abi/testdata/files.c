/* Programs that do to their descriptors, folders and processes as they like, while the library writes
 * files of its own. One case each; the test looks at the files. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

enum { DESCRIPTORS = 64, BLOCKS = 20000, BLOCK_BYTES = 1000, PATIENCE_S = 120 };

/* Closes all descriptors but the standard streams, and has the file opened under each number. */
static void reuse(const char *path) {
  for (int file = 3; file < DESCRIPTORS; file++) close(file);
  int file;
  do {
    file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    CHECK(file >= 3);
  } while (file < DESCRIPTORS);
  CHECK(write(file, "data\n", 5) == 5);
}

/* The same, and standard error is closed too, or another file. */
static void reuse_all(const char *path) {
  close(STDERR_FILENO);
  CHECK(open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) == STDERR_FILENO);
  reuse(path);
}

/* Both processes end by exit. */
static void forked(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) exit(0);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void hold_blocks(void) {
  static char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(BLOCK_BYTES);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, BLOCK_BYTES);
  }
}

/* Requests and frees that leave the thread's bins. */
static void go_on(void) {
  static void *blocks[1000];
  for (int i = 0; i < 1000; i++) blocks[i] = malloc(64);
  for (int i = 0; i < 1000; i++) free(blocks[i]);
}

static int is_whole(const char *path) {
  static char text[1 << 20];
  int file = open(path, O_RDONLY);
  if (file < 0) return 0;
  ssize_t len = read(file, text, sizeof text - 1);
  close(file);
  text[len > 0 ? len : 0] = 0;
  /* The library stands in the last part. */
  return strstr(text, "MAPPED_LIBRARIES:") != NULL && strstr(text, "[stack]") != NULL;
}

static const char *numbered(const char *path, int number) {
  static char name[4096];
  snprintf(name, sizeof name, "%s.%d", path, number);
  return name;
}

/* The first number that no file has. */
static int first_number(const char *path) {
  int number = 1;
  while (access(numbered(path, number), F_OK) == 0) number++;
  return number;
}

/* Waits until a profile is written, asleep or at work. */
static void await(const char *path, int number, int is_busy) {
  time_t end = time(NULL) + PATIENCE_S;
  while (!is_whole(numbered(path, number))) {
    CHECK(time(NULL) < end);
    if (is_busy) go_on();
    usleep(10000);
  }
}

static void on_signals(const char *path, int is_busy) {
  hold_blocks();
  int first = first_number(path);
  for (int number = first; number < first + 2; number++) {
    errno = 4711;
    CHECK(raise(SIGUSR2) == 0);
    CHECK(errno == 4711);
    await(path, number, is_busy);
  }
}

static void in_time(const char *path, int is_busy) {
  hold_blocks();
  await(path, 1, is_busy);
  await(path, 2, is_busy);
}

int main(int count, char **arguments) {
  CHECK(count == 3);
  const char *name = arguments[1], *path = arguments[2];
  if (strcmp(name, "reuse") == 0) reuse(path);
  else if (strcmp(name, "reuse_all") == 0) reuse_all(path);
  else if (strcmp(name, "moved") == 0) CHECK(chdir(path) == 0);
  else if (strcmp(name, "forked") == 0) forked();
  else if (strcmp(name, "signals_asleep") == 0) on_signals(path, 0);
  else if (strcmp(name, "signals_at_work") == 0) on_signals(path, 1);
  else if (strcmp(name, "time_asleep") == 0) in_time(path, 0);
  else if (strcmp(name, "time_at_work") == 0) in_time(path, 1);
  else CHECK(!"a case of this name");
  return 0;
}
