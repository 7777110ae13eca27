/* A program that frees in one of many ways and is idle from then on: how much of its memory stays resident, and how long.
 *
 *   idleness WAY BYTES ORDER THREADS judge DECAY_MS   exit code 0: in time, 1: it stays, 4: later than twice the decay
 *   idleness WAY BYTES ORDER THREADS wait PAUSE_MS    after a pause, whatever it is: for allocators of other rules
 *
 * It prints `held LIVE IDLE MS`: KiB of anonymous resident memory before the frees, KiB of pages with a live block, KiB
 * resident in the end, and milliseconds that it slept until then. Tables of pointers are in shared memory, which does not
 * count as anonymous, and after the last free nothing calls the allocator. */
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "resident.h"

enum {
  KIB = 1 << 10,
  MIB = 1 << 20,
  PAGE = 4 * KIB,
  SLAB = 64 * KIB,
  CHUNK = 4 * MIB,
  HELD = 64 * MIB,
  ALLOWED = 4 * MIB,
  STACK = 16 * KIB,
  POLL_MS = 20,
  DEADLINE_MS = 60000,
  THREADS_MAX = 64,
  CHILDREN = 4,
  SEEN = 1 << 16,
};

/* Blocks of one thread: the first `freed` are given back in this order, the others stay. */
struct area {
  void **blocks;
  long count, freed;
};

static struct area areas[THREADS_MAX];
static int threads;
static size_t bytes;
static const char *order;
static int is_judged;
static long limit_ms;
static long before;
static _Atomic long held;
static sem_t done;
static pthread_key_t key;

/* Bytes of pages with a byte of a block that stays. */
static long live(void) {
  long slots = 4 * (HELD / PAGE) + 64 * KIB, pages = 0;
  uintptr_t *set = map((size_t)slots * sizeof *set);
  for (int t = 0; t < threads; t++)
    for (long i = areas[t].freed; i < areas[t].count; i++) {
      uintptr_t start = (uintptr_t)areas[t].blocks[i];
      uintptr_t last = start + malloc_usable_size(areas[t].blocks[i]) - 1;
      for (uintptr_t page = start / PAGE; page <= last / PAGE; page++) pages += is_new(set, slots, page);
    }
  munmap(set, (size_t)slots * sizeof *set);
  return pages * PAGE;
}

static void swap(void **blocks, long a, long b) {
  void *block = blocks[a];
  blocks[a] = blocks[b];
  blocks[b] = block;
}

/* Moves the blocks to the end that stay: each second one, or the first of each granule. */
static void keep(struct area *area, long granule) {
  uintptr_t *set = map(SEEN * sizeof *set);
  void **kept = map((size_t)area->count * sizeof *kept);
  long freed = 0, stay = 0;
  for (long i = 0; i < area->count; i++) {
    void *block = area->blocks[i];
    int stays = granule == 0 ? i % 2 == 1 : is_new(set, SEEN, (uintptr_t)block / (uintptr_t)granule);
    if (stays) kept[stay++] = block;
    else area->blocks[freed++] = block;
  }
  memcpy(area->blocks + freed, kept, (size_t)stay * sizeof *kept);
  area->freed = freed;
  munmap(kept, (size_t)area->count * sizeof *kept);
  munmap(set, SEEN * sizeof *set);
}

/* Puts the blocks into the order in which they are freed. */
static void arrange(struct area *area) {
  uint64_t random = 88172645463325252u;
  area->freed = area->count;
  if (strcmp(order, "lifo") == 0) {
    for (long i = 0; i < area->count / 2; i++) swap(area->blocks, i, area->count - 1 - i);
  } else if (strcmp(order, "random") == 0) {
    for (long i = area->count - 1; i > 0; i--) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      swap(area->blocks, i, (long)(random % (uint64_t)(i + 1)));
    }
  } else if (strcmp(order, "fifo") != 0) {
    static const struct {
      const char *name;
      long granule;
    } kept[] = {{"half", 0}, {"page", PAGE}, {"slab", SLAB}, {"chunk", CHUNK}};
    int i = 0;
    while (strcmp(order, kept[i].name) != 0) CHECK(++i < 4);
    keep(area, kept[i].granule);
  }
}

/* `realloc` of nothing is `malloc`. */
static void resize_all(struct area *area, size_t size) {
  for (long i = 0; i < area->count; i++) {
    area->blocks[i] = realloc(area->blocks[i], size);
    CHECK(area->blocks[i] != NULL);
    memset(area->blocks[i], 1, size);
  }
}

static void allocate(struct area *area) {
  memset(area->blocks, 0, (size_t)area->count * sizeof *area->blocks);
  resize_all(area, bytes);
  arrange(area);
}

static void give_back(struct area *area) {
  for (long i = 0; i < area->freed; i++) free(area->blocks[i]);
}

/* Blocks of all small sizes come and go: every bin has some. */
static void warm(void) {
  void *few[300];
  for (size_t size = 16; size <= 32 * KIB; size += size / 8 + 8) {
    int count = (int)(128 * KIB / size) + 2 < 300 ? (int)(128 * KIB / size) + 2 : 300;
    for (int i = 0; i < count; i++) memset(few[i] = malloc(size), 1, size);
    for (int i = 0; i < count; i++) free(few[i]);
  }
}

/* Waits, and tells. */
static int idle(long live_bytes) {
  struct timespec pause = {0, POLL_MS * 1000L * 1000L};
  /* A block of 16 bytes has a bit in the records of its slab, two in the hardened build. */
  long records = live_bytes / 64, stacks = (long)threads * STACK;
  long now = 0, ms = 0, enough = before + live_bytes + records + stacks + ALLOWED;
  long end = is_judged ? DEADLINE_MS : limit_ms;
  for (;;) {
    now = resident();
    if (ms >= end || (is_judged && now <= enough)) break;
    nanosleep(&pause, NULL);
    ms += POLL_MS;
  }
  dprintf(1, "%ld %ld %ld %ld\n", held / KIB, live_bytes / KIB, now / KIB, ms);
  if (!is_judged) return 0;
  return now > enough ? 1 : ms > 2 * limit_ms + POLL_MS ? 4 : 0;
}

typedef void work(struct area *);

struct task {
  struct area *area;
  work *steps[2];
  int sleeps;
};

static void *perform(void *argument) {
  struct task task = *(struct task *)argument;
  for (int i = 0; i < 2 && task.steps[i] != NULL; i++) task.steps[i](task.area);
  CHECK(sem_post(&done) == 0);
  while (task.sleeps) pause();
  return NULL;
}

/* A thread for each area takes these steps, all at once, and sleeps then, or ends. */
static void in_threads(work *first, work *second, int sleeps) {
  static struct task tasks[THREADS_MAX];
  pthread_t ids[THREADS_MAX];
  for (int t = 0; t < threads; t++) {
    tasks[t] = (struct task){&areas[t], {first, second}, sleeps};
    CHECK(pthread_create(&ids[t], NULL, perform, &tasks[t]) == 0);
  }
  for (int t = 0; t < threads; t++) CHECK(sem_wait(&done) == 0);
  for (int t = 0; t < threads && !sleeps; t++) CHECK(pthread_join(ids[t], NULL) == 0);
}

static void each(work *step) {
  for (int t = 0; t < threads; t++) step(&areas[t]);
}

static void note_held(struct area *area) {
  (void)area;
  long now = resident();
  if (now > held) held = now;
}

static void keep_then_free(struct area *area) {
  note_held(area);
  give_back(area);
}

/* Steps of the main thread, or of several that sleep then. */
static int by_owners(work *first, work *second) {
  if (threads > 1) {
    in_threads(first, second, 1);
  } else {
    each(first);
    each(second);
  }
  return idle(live());
}

static int own(void) { return by_owners(allocate, keep_then_free); }

static int freed_by_threads(int sleep) {
  each(allocate);
  note_held(NULL);
  in_threads(give_back, NULL, sleep);
  return idle(live());
}

static int other(void) { return freed_by_threads(1); }
static int freed_then_ended(void) { return freed_by_threads(0); }

static int ended(void) {
  in_threads(allocate, NULL, 0);
  each(keep_then_free);
  return idle(live());
}

/* Producers and consumers: two rounds, then all of them sleep. */
static int exchange(void) {
  in_threads(allocate, NULL, 1);
  note_held(NULL);
  in_threads(give_back, allocate, 1);
  in_threads(give_back, NULL, 1);
  return idle(live());
}

static void warmly(struct area *area) {
  keep_then_free(area);
  warm();
}

static int warm_threads(void) {
  in_threads(allocate, warmly, 1);
  return idle(live());
}

static void at_end(void *area) { give_back(area); }

static void set_key(struct area *area) {
  note_held(area);
  CHECK(pthread_setspecific(key, area) == 0);
}

static int thread_exit(void) {
  CHECK(pthread_key_create(&key, at_end) == 0);
  in_threads(allocate, set_key, 0);
  return idle(live());
}

static void shrink_all(struct area *area) {
  note_held(area);
  resize_all(area, bytes / 4);
  area->freed = 0;
}

static int shrunk(void) { return by_owners(allocate, shrink_all); }

/* A quarter as long, in the mappings of the longer ones. */
static void replace_all(struct area *area) {
  note_held(area);
  give_back(area);
  memset(area->blocks, 0, (size_t)area->count * sizeof *area->blocks);
  resize_all(area, bytes / 4);
  area->freed = 0;
}

static int replaced(void) { return by_owners(allocate, replace_all); }

static void grow_all(struct area *area) {
  for (size_t part = 16; part > 0; part /= 2) resize_all(area, bytes / part);
  arrange(area);
}

static int grown(void) { return by_owners(grow_all, keep_then_free); }

/* In a child of a threaded parent: what it asks for itself comes first. */
static int child(long live_bytes) {
  void *blocks[200];
  for (int i = 0; i < 200; i++) CHECK((blocks[i] = malloc(bytes)) != NULL);
  for (int i = 0; i < 200; i++) free(blocks[i]);
  each(give_back);
  return idle(live_bytes);
}

static int in_children(int count) {
  in_threads(allocate, NULL, 1);
  note_held(NULL);
  long live_bytes = live();
  int worst = 0, status = 0;
  for (int i = 0; i < count; i++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) _exit(child(live_bytes));
  }
  for (int i = 0; i < count; i++) {
    CHECK(wait(&status) > 0 && WIFEXITED(status));
    if (WEXITSTATUS(status) > worst) worst = WEXITSTATUS(status);
  }
  return worst;
}

static int one_child(void) { return in_children(1); }
static int prefork(void) { return in_children(CHILDREN); }

/* The parent frees while a child has the same pages. */
static int parent(void) {
  in_threads(allocate, NULL, 1);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    alarm(300);
    for (;;) pause();
  }
  each(keep_then_free);
  int result = idle(live());
  CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
  return result;
}

static sigjmp_buf after_signal;
static void leave(int number) {
  (void)number;
  siglongjmp(after_signal, 1);
}

static int after_a_handler(void) {
  in_threads(allocate, NULL, 1);
  signal(SIGUSR1, leave);
  if (sigsetjmp(after_signal, 1) == 0) CHECK(raise(SIGUSR1) == 0);
  each(keep_then_free);
  return idle(live());
}

static void free_at_end(void) {
  each(keep_then_free);
  _exit(idle(live()));
}

static int at_exit(void) {
  in_threads(allocate, NULL, 1);
  CHECK(atexit(free_at_end) == 0);
  return 0;
}

static int has_destructor;
__attribute__((destructor)) static void destroy(void) {
  if (has_destructor) free_at_end();
}

static int at_unload(void) {
  in_threads(allocate, NULL, 1);
  has_destructor = 1;
  return 0;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(void);
  } ways[] = {
      {"own", own},         {"other", other},     {"freed-then-ended", freed_then_ended},
      {"ended", ended},     {"exchange", exchange}, {"warm", warm_threads},
      {"thread-exit", thread_exit}, {"shrunk", shrunk}, {"grown", grown},
      {"replaced", replaced}, {"child", one_child}, {"prefork", prefork}, {"parent", parent},
      {"signal", after_a_handler}, {"atexit", at_exit}, {"destructor", at_unload},
  };
  CHECK(argc == 7);
  bytes = strtoul(argv[2], NULL, 10);
  order = argv[3];
  threads = atoi(argv[4]);
  is_judged = strcmp(argv[5], "judge") == 0;
  limit_ms = atol(argv[6]);
  CHECK(bytes > 0 && threads > 0 && threads <= THREADS_MAX);
  long count = HELD / (long)bytes / threads;
  for (int t = 0; t < threads; t++) {
    areas[t].count = count > 0 ? count : 1;
    areas[t].blocks = map((size_t)areas[t].count * sizeof(void *));
  }
  CHECK(sem_init(&done, 0, 0) == 0);
  before = resident();
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (strcmp(ways[i].name, argv[1]) == 0) return ways[i].run();
  return 3;
}
