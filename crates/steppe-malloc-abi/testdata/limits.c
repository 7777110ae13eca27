/* Bounds on the memory that the allocator holds: limit, soft limit, watermark, share of free memory, control group. */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"
#include "steppe_malloc.h"

enum { MIB = 1 << 20, BLOCKS_MAX = 1000000 };
static char *blocks[BLOCKS_MAX];
static size_t count;

/* Functions of the preloaded library. */
#pragma weak steppe_malloc_set_limit
#pragma weak steppe_malloc_set_soft_limit
#pragma weak steppe_malloc_set_watermark
#pragma weak steppe_malloc_stats
#pragma weak steppe_malloc_stats_json

static char json[1 << 16];
static size_t json_len;

static void append(void *context, const char *text, size_t len) {
  (void)context;
  if (json_len + len >= sizeof json) return;
  memcpy(json + json_len, text, len);
  json_len += len;
  json[json_len] = 0;
}

static long figure(const char *name) {
  json_len = 0;
  CHECK(steppe_malloc_stats_json(append, NULL) == 0);
  const char *found = strstr(json, name);
  CHECK(found != NULL);
  return atol(found + strlen(name) + 2);
}

static long held(void) {
  struct steppe_malloc_stats stats;
  CHECK(steppe_malloc_stats(&stats, sizeof stats) == sizeof stats);
  return (long)stats.held_bytes;
}

static int take(size_t bytes) {
  char *block = malloc(bytes);
  if (block == NULL) return 0;
  memset(block, 1, bytes);
  CHECK(count < BLOCKS_MAX);
  blocks[count++] = block;
  return 1;
}

static void take_total(size_t bytes, size_t total) {
  for (size_t taken = 0; taken < total; taken += bytes) CHECK(take(bytes));
}

static void release_all(void) {
  while (count > 0) free(blocks[--count]);
}

static const size_t SIZES[] = {100, 3000, 30000, 200000, 900000, 3 * MIB};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

/* Under a limit of 64 MiB, set by the environment. */
static void within_limit(void) {
  const long limit = 64 * MIB;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < SIZE_COUNT; i++) {
      errno = 0;
      while (take(SIZES[i])) {}
      CHECK(errno == ENOMEM);
      CHECK(held() <= limit);
      CHECK(private_bytes() <= limit + 8 * MIB);
      /* What other sizes left behind is purged before a request is refused. */
      CHECK(count * SIZES[i] >= (size_t)limit * 2 / 3);
      release_all();
    }
  }
}

static void limit(void) {
  within_limit();
  char *block = malloc(40 * MIB);
  CHECK(block != NULL);
  paint(block, 40 * MIB, 3);
  CHECK(realloc(block, 80 * MIB) == NULL && errno == ENOMEM);
  CHECK(is_painted(block, 40 * MIB, 3));
  /* Grows in place, where the rest is free and resident. */
  take_total(30000, 15 * MIB);
  release_all();
  CHECK((block = realloc(block, 58 * MIB)) != NULL);
  CHECK(is_painted(block, 40 * MIB, 3));
  CHECK(held() <= 64 * MIB);
  free(block);
  steppe_malloc_set_limit(0);
  take_total(100000, 100 * MIB);
  release_all();
  steppe_malloc_set_limit(32 * MIB);
  CHECK(malloc(33 * MIB) == NULL);
}

static void *exhaust(void *sum) {
  static _Thread_local char *own[2000];
  int taken = 0;
  while (taken < 2000 && (own[taken] = malloc(SIZES[taken % SIZE_COUNT])) != NULL) taken++;
  CHECK(held() <= 64 * MIB);
  __atomic_fetch_add((int *)sum, taken, __ATOMIC_RELAXED);
  while (taken > 0) free(own[--taken]);
  return NULL;
}

static void limit_in_threads(void) {
  for (int round = 0; round < 5; round++) {
    int sum = 0;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, exhaust, &sum) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(sum > 20);
  }
}

/* 40 MiB live, 20 free. */
static void partly_free(void) {
  take_total(128 * 1024, 40 * MIB);
  size_t live = count;
  take_total(32 * 1024, 20 * MIB);
  while (count > live) free(blocks[--count]);
}

static void soft_limit(void) {
  partly_free();
  CHECK(private_bytes() > 55 * MIB);
  steppe_malloc_set_soft_limit(66 * MIB);
  long before = figure("purges");
  /* Beyond it, what is free goes before the program touches the new block. */
  char *block = malloc(10 * MIB);
  CHECK(block != NULL);
  CHECK(figure("purges") == before + 1);
  CHECK(private_bytes() < 48 * MIB);
  free(block);
  /* Far beyond it: a purge for each eighth. */
  before = figure("purges");
  take_total(128 * 1024, 90 * MIB);
  long purges = figure("purges") - before;
  CHECK(purges >= 1 && purges <= 16);
  /* Blocks that come and go there cost none. */
  before = figure("purges");
  for (int i = 0; i < 10000; i++) {
    char *passing = malloc(500000);
    CHECK(passing != NULL);
    free(passing);
  }
  CHECK(figure("purges") - before <= 1);
  /* Below it, it is in force again; at once, where it is passed when it is set. */
  release_all();
  malloc_trim(0);
  partly_free();
  CHECK(private_bytes() > 55 * MIB);
  CHECK((block = malloc(10 * MIB)) != NULL);
  CHECK(private_bytes() < 48 * MIB);
  release_all();
  partly_free();
  CHECK(private_bytes() > 55 * MIB);
  steppe_malloc_set_soft_limit(50 * MIB);
  CHECK(private_bytes() < 48 * MIB);
}

static long heard(int file) {
  uint64_t number = 0;
  return read(file, &number, sizeof number) == sizeof number ? (long)number : 0;
}

static void watermark(void) {
  int file = eventfd(0, EFD_NONBLOCK);
  CHECK(file >= 0);
  CHECK(steppe_malloc_set_watermark(50 * MIB, 1000) == -1 && errno == EBADF);
  CHECK(steppe_malloc_set_watermark(50 * MIB, file) == 0);
  take_total(30000, 40 * MIB);
  CHECK(heard(file) == 0);
  take_total(30000, 20 * MIB);
  CHECK(heard(file) == 1);
  take_total(30000, 20 * MIB);
  CHECK(heard(file) == 0);
  /* Set again: at once where it is passed, later where it is not. */
  CHECK(steppe_malloc_set_watermark(50 * MIB, file) == 0);
  CHECK(heard(file) == 1);
  CHECK(steppe_malloc_set_watermark(120 * MIB, file) == 0);
  CHECK(steppe_malloc_set_watermark(0, -1) == 0);
  take_total(3 * MIB, 60 * MIB);
  CHECK(heard(file) == 0);
  /* A child does not speak for its parent. */
  CHECK(steppe_malloc_set_watermark(200 * MIB, file) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    take_total(3 * MIB, 100 * MIB);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(heard(file) == 0);
  /* A program that closes everything and opens files finds nothing in them. */
  for (int other = 3; other < 100; other++)
    if (other != file) close(other);
  static char path[] = "/tmp/steppe-watermark-XXXXXX";
  int data = mkstemp(path);
  CHECK(data >= 0);
  unlink(path);
  for (int other = 3; other < 100; other++)
    if (other != data && other != file) CHECK(dup2(data, other) == other);
  take_total(3 * MIB, 100 * MIB);
  struct stat is;
  CHECK(fstat(data, &is) == 0 && is.st_size == 0);
}

/* Sizes that change: what one phase frees does not serve the next. At most `live` bytes at any time. */
static long changing_sizes(size_t live, int phases) {
  long peak = 0;
  for (int phase = 0; phase < phases; phase++) {
    size_t bytes = 40000 + (size_t)phase * 7919 * 61 % (6 * MIB);
    take_total(bytes, live - bytes);
    long now = private_bytes();
    if (now > peak) peak = now;
    /* Each eighth stays for a phase. */
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
      if (i % 8 == 0 && phase % 4 != 3) blocks[kept++] = blocks[i];
      else free(blocks[i]);
    }
    count = kept;
    while (count > 0 && phase % 2 == 1) free(blocks[--count]);
  }
  release_all();
  return peak;
}

/* argv[2]: the most MiB that may ever be resident. */
static long allowed_mib;

static void share(void) {
  long peak = changing_sizes(32 * MIB, 80);
  printf("%ld MiB\n", peak / MIB);
  CHECK(peak <= allowed_mib * MIB);
}

/* Lives, where a control group allows 60 MB. */
static void survive(void) {
  changing_sizes(30 * MIB, 100);
  for (int round = 0; round < 5; round++)
    for (int i = 0; i < SIZE_COUNT; i++) {
      take_total(SIZES[i], 30 * MIB);
      release_all();
    }
}

/* A part of each huge page is freed: it is gone from the control group too, whose usage the file USAGE has. */
static void huge_pages(void) {
  const char *usage = getenv("USAGE");
  take_total(64 * 1024, 256 * MIB);
  long huge = proc_number("/proc/self/smaps_rollup", "AnonHugePages:") * 1024;
  printf("%ld MiB in huge pages\n", huge / MIB);
  if (huge < 200 * MIB) return;
  CHECK(proc_number(usage, "") > 250 * MIB);
  for (size_t i = 0; i < count; i++)
    if (i % 32 != 0) free(blocks[i]);
  struct timespec pause = {0, 20 * 1000 * 1000};
  for (int look = 0; look < 3000 && proc_number(usage, "") > 32 * MIB; look++) nanosleep(&pause, NULL);
  CHECK(proc_number(usage, "") <= 32 * MIB);
  for (size_t i = 0; i < count; i += 32) CHECK(blocks[i][65535] == 1);
}

/* The folder of a made-up group, where this program writes what the kernel would. */
static const char *folder;

static void set(const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0);
  CHECK(write(file, text, strlen(text)) == (ssize_t)strlen(text));
  close(file);
}

static int falls_to(long bytes, int looks) {
  struct timespec pause = {0, 20 * 1000 * 1000};
  for (int look = 0; look < looks; look++) {
    if (private_bytes() <= bytes) return 1;
    nanosleep(&pause, NULL);
  }
  return 0;
}

/* 40 MiB free: they stay, for ten minutes. */
static void free_forty(void) {
  take_total(200000, 40 * MIB);
  CHECK(private_bytes() > 40 * MIB);
  release_all();
}

static void version_2(void) {
  set("memory.max", "max\n");
  set("memory.high", "200000000\n");
  set("memory.current", "50000000\n");
  set("memory.stat", "anon 1\ninactive_file 1000000\n");
  set("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\nfull avg10=0.00 total=1000\n");
  free_forty();
  CHECK(!falls_to(20 * MIB, 100));
  /* Pages of files that nobody uses are no pressure. */
  set("memory.stat", "anon 1\ninactive_file 120000000\n");
  set("memory.current", "190000000\n");
  CHECK(!falls_to(20 * MIB, 50));
  set("memory.stat", "anon 1\ninactive_file 1000\n");
  CHECK(falls_to(20 * MIB, 3000));
  /* Tasks that stand still are. */
  set("memory.current", "50000000\n");
  free_forty();
  CHECK(!falls_to(20 * MIB, 50));
  set("memory.pressure", "some avg10=9.00 avg60=0.00 avg300=0.00 total=901000\nfull avg10=0.00 total=1000\n");
  CHECK(falls_to(20 * MIB, 3000));
}

static void version_1(void) {
  set("memory.limit_in_bytes", "200000000\n");
  set("memory.usage_in_bytes", "50000000\n");
  set("memory.stat", "cache 0\ninactive_file 190000000\ntotal_inactive_file 0\n");
  free_forty();
  CHECK(!falls_to(20 * MIB, 100));
  set("memory.usage_in_bytes", "190000000\n");
  CHECK(falls_to(20 * MIB, 3000));
}

/* Growth looks at once, without the background thread. */
static void at_once(void) {
  set("memory.max", "60000000\n");
  set("memory.current", "1000000\n");
  set("memory.stat", "anon 1\n");
  free_forty();
  set("memory.current", "58000000\n");
  char *block = malloc(20 * MIB);
  CHECK(block != NULL);
  CHECK(private_bytes() < 20 * MIB);
}

static void no_limit(void) {
  set("memory.max", "max\n");
  set("memory.current", "1000000\n");
  free_forty();
  /* Not read again. */
  set("memory.max", "1000\n");
  CHECK(!falls_to(20 * MIB, 100));
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"limit", limit},         {"limit_in_threads", limit_in_threads},
      {"soft_limit", soft_limit}, {"watermark", watermark},
      {"share", share},         {"survive", survive}, {"huge_pages", huge_pages},
      {"version_2", version_2}, {"version_1", version_1},
      {"at_once", at_once},     {"no_limit", no_limit},
      {NULL, NULL},
  };
  if (argc > 2) allowed_mib = atol(argv[2]);
  folder = getenv("STEPPE_MALLOC_CGROUP");
  return run_case(cases, argc, argv);
}
