/* Large blocks by the ten thousand: the kernel allows a process 65,530 mappings (vm.max_map_count), and more blocks
 * than that leave room for other mappings. */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "check.h"

enum { MIB = 1 << 20, BLOCKS = 70530, SMALL = 2000, LINES_MAX = 40000 };
static char *blocks[BLOCKS];
static unsigned order[BLOCKS];

static unsigned next_random(void) {
  static unsigned state = 12345;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

static void shuffle(void) {
  for (unsigned i = 0; i < BLOCKS; i++) order[i] = i;
  for (unsigned i = BLOCKS - 1; i > 0; i--) {
    unsigned other = next_random() % (i + 1), here = order[i];
    order[i] = order[other];
    order[other] = here;
  }
}

/* Mappings of the kernel's, as lines of /proc/self/maps. Allocates nothing. */
static long mappings(void) {
  static char text[1 << 16];
  int file = open("/proc/self/maps", O_RDONLY);
  CHECK(file >= 0);
  long lines = 0;
  ssize_t len;
  while ((len = read(file, text, sizeof text)) > 0)
    for (ssize_t i = 0; i < len; i++) lines += text[i] == '\n';
  close(file);
  return lines;
}

static size_t size_of(unsigned i) { return 11 * (size_t)MIB / 10 + (size_t)i * 7919 % (9 * MIB / 10); }

static void take(unsigned i) {
  blocks[i] = malloc(size_of(i));
  if (blocks[i] == NULL) fprintf(stderr, "block %u, %ld mappings\n", i, mappings());
  CHECK(blocks[i] != NULL);
  CHECK(malloc_usable_size(blocks[i]) >= size_of(i));
  blocks[i][size_of(i) / 2] = (char)(i % 251 + 1);
}

static void release(unsigned i) {
  CHECK(blocks[i][size_of(i) / 2] == (char)(i % 251 + 1));
  free(blocks[i]);
  blocks[i] = NULL;
}

static void *thread_body(void *context) {
  char *block = malloc(30000);
  CHECK(block != NULL);
  memset(block, 1, 30000);
  free(block);
  return context;
}

static void others_have_room(void) {
  static char *small[SMALL];
  for (int i = 0; i < SMALL; i++) {
    CHECK((small[i] = malloc(30000)) != NULL);
    paint(small[i], 30000, (unsigned)i);
  }
  pthread_t threads[16];
  for (int i = 0; i < 16; i++) CHECK(pthread_create(&threads[i], NULL, thread_body, NULL) == 0);
  for (int i = 0; i < 16; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < SMALL; i++) {
    CHECK(is_painted(small[i], 30000, (unsigned)i));
    free(small[i]);
  }
}

/* Blocks grow, shrink and move among their neighbours. */
static void resize_some(void) {
  static const size_t sizes[] = {3 * MIB, 5 * MIB, 20 * MIB, 3 * MIB / 2, 80 * MIB, 11 * MIB, 6 * MIB};
  for (unsigned i = 5000; i < BLOCKS; i += 6500) {
    size_t old = size_of(i);
    memset(blocks[i], 7, old);
    for (unsigned step = 0; step < sizeof sizes / sizeof sizes[0]; step++) {
      char *grown = realloc(blocks[i], sizes[step]);
      CHECK(grown != NULL && is_aligned(grown, 16));
      CHECK(malloc_usable_size(grown) >= sizes[step]);
      size_t kept = sizes[step] < old ? sizes[step] : old;
      for (size_t at = 0; at < kept; at += 4095) CHECK(grown[at] == 7);
      memset(grown, 7, sizes[step]);
      old = sizes[step];
      blocks[i] = grown;
    }
    CHECK((blocks[i] = realloc(blocks[i], size_of(i))) != NULL);
    blocks[i][size_of(i) / 2] = (char)(i % 251 + 1);
  }
}

static void zeroed(void) {
  for (unsigned i = 0; i < 20; i++) {
    char *block = calloc(1, 3 * MIB / 2 + i * 100000);
    CHECK(block != NULL && is_zero(block, 3 * MIB / 2 + i * 100000));
    memset(block, 1, 3 * MIB / 2);
    free(block);
  }
}

static void share(void) {
  for (int round = 0; round < 2; round++) {
    for (unsigned i = 0; i < BLOCKS; i++) take(i);
    long lines = mappings();
    if (lines > LINES_MAX) fprintf(stderr, "%ld mappings\n", lines);
    CHECK(lines <= LINES_MAX);
    /* Padding is nobody's. (Later, a block may be one that is kept, and larger.) */
    for (unsigned i = 0; i < BLOCKS && round == 0; i++) CHECK(malloc_usable_size(blocks[i]) < size_of(i) + 4096);
    others_have_room();
    resize_some();
    shuffle();
    for (unsigned i = 0; i < BLOCKS; i += 2) release(order[i]);
    CHECK(mappings() <= LINES_MAX);
    others_have_room();
    zeroed();
    for (unsigned i = 0; i < BLOCKS; i += 2) take(order[i]);
    CHECK(mappings() <= LINES_MAX);
    shuffle();
    for (unsigned i = 0; i < BLOCKS; i++) release(order[i]);
  }
  /* Addresses come back too. */
  malloc_trim(0);
  CHECK(mappings() < 2000);
  struct timespec pause = {0, 20 * 1000 * 1000};
  for (int look = 0; look < 3000 && mapped_bytes() > (size_t)4096 * MIB; look++) nanosleep(&pause, NULL);
  CHECK(mapped_bytes() <= (size_t)4096 * MIB);
}

/* Blocks of which nothing is touched grow: most are moved, not copied. */
static void grow(void) {
  for (unsigned i = 0; i < BLOCKS; i++) take(i);
  for (unsigned i = 0; i < BLOCKS; i += 6) CHECK((blocks[i] = realloc(blocks[i], 5 * MIB)) != NULL);
  CHECK(mappings() <= LINES_MAX);
  CHECK(resident_bytes() < (size_t)1024 * MIB);
  others_have_room();
  for (unsigned i = 0; i < BLOCKS; i++) release(i);
}

/* Where all that is mapped is resident at once, padding would be too. */
static void locked(void) {
  for (unsigned i = 0; i < 4200; i++) take(i);
  size_t before = resident_bytes();
  if (mlockall(MCL_FUTURE) != 0) return;
  for (unsigned i = 4200; i < 4240; i++) CHECK((blocks[i] = malloc(11 * MIB / 10)) != NULL);
  CHECK(resident_bytes() < before + (size_t)60 * MIB);
}

/* Places whose memory is locked stay resident, and are counted as free until it is not. */
static void refused(void) {
  enum { FIRST = 4200, LAST = 4220 };
  uintptr_t at[LAST];
  size_t total = 0;
  for (unsigned i = 0; i < LAST; i++) take(i);
  for (unsigned i = FIRST; i < LAST; i++) {
    at[i] = (uintptr_t)blocks[i];
    if (mlock(blocks[i], size_of(i)) != 0) _exit(77);
    total += size_of(i);
    release(i);
  }
  malloc_trim(0);
  size_t counted = mallinfo2().fordblks, resident = resident_bytes();
  CHECK(counted >= total);
  for (unsigned i = FIRST; i < LAST; i++) CHECK(munlock((void *)at[i], size_of(i)) == 0);
  malloc_trim(0);
  CHECK(mallinfo2().fordblks <= counted - total);
  /* The kernel counts in steps. */
  CHECK(resident_bytes() < resident - total + MIB);
}

/* Where address space is counted, blocks take no more of it than they need. */
static void limited(void) {
  struct rlimit limit = {(rlim_t)16 << 30, (rlim_t)16 << 30};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  unsigned count = 0;
  while (count < BLOCKS && (blocks[count] = malloc(3 * MIB / 2)) != NULL) count++;
  CHECK(count > 10000);
  for (unsigned i = 0; i < count; i++) free(blocks[i]);
  CHECK((blocks[0] = malloc((size_t)8 << 30)) != NULL);
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"share", share},     {"grow", grow},       {"locked", locked},
      {"refused", refused}, {"limited", limited}, {NULL, NULL}};
  return run_case(cases, argc, argv);
}
