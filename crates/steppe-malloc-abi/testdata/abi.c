/* The contract of each function of the C ABI, one case each. */
#include <malloc.h>
#include <stdbool.h>

#include "check.h"
#include "malloc_of_musl.h"
#include "steppe_malloc.h"

/* C23; not in the headers of older C libraries. */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t align, size_t size);

enum { MIN_ALIGN = 16 };

static const size_t SIZES[] = {0,     1,     7,      8,      15,     16,      17,      24,
                               31,    33,    48,     63,     64,     65,      100,     127,
                               128,   129,   200,    255,    257,    500,     1000,    1024,
                               1025,  2048,  3000,   4095,   4096,   4097,    8000,    16383,
                               16384, 16385, 40000,  65535,  65536,  65537,   100000,  262144,
                               500000, 1048575, 1048576, 1048577, 3000000, 4194304, 9000000, 40000000};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

static const size_t TOO_LARGE[] = {SIZE_MAX,          SIZE_MAX - 1,       SIZE_MAX - 15,
                                   SIZE_MAX - 4095,   SIZE_MAX - 4096,    SIZE_MAX - 65536,
                                   SIZE_MAX - 4194304, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX,
                                   (size_t)1 << 62,   (size_t)1 << 52};
enum { TOO_LARGE_COUNT = sizeof TOO_LARGE / sizeof TOO_LARGE[0] };

enum { UNTOUCHED = 4711 };

#define REFUSED(call, error)        \
  do {                              \
    errno = UNTOUCHED;              \
    CHECK((call) == NULL);          \
    CHECK(errno == (error));        \
  } while (0)

static void malloc_case(void) {
  void *blocks[SIZE_COUNT];
  errno = UNTOUCHED;
  for (unsigned i = 0; i < SIZE_COUNT; i++) {
    blocks[i] = malloc(SIZES[i]);
    CHECK(blocks[i] != NULL);
    CHECK(is_aligned(blocks[i], MIN_ALIGN));
    CHECK(malloc_usable_size(blocks[i]) >= SIZES[i]);
    paint(blocks[i], SIZES[i], i);
  }
  for (unsigned i = 0; i < SIZE_COUNT; i++) CHECK(is_painted(blocks[i], SIZES[i], i));
  for (unsigned i = 0; i < SIZE_COUNT; i++) free(blocks[i]);
  CHECK(errno == UNTOUCHED);
  /* Blocks of no bytes are blocks, each its own. */
  void *first = malloc(0), *second = malloc(0);
  CHECK(first != NULL && second != NULL && first != second);
  free(first);
  free(second);
}

static void every_size(void) {
  static void *blocks[20000];
  for (size_t size = 0; size < 20000; size++) {
    blocks[size] = malloc(size);
    CHECK(is_aligned(blocks[size], MIN_ALIGN));
    CHECK(malloc_usable_size(blocks[size]) >= size);
    paint(blocks[size], size, (unsigned)size);
  }
  for (size_t size = 0; size < 20000; size++) {
    CHECK(is_painted(blocks[size], size, (unsigned)size));
    free(blocks[size]);
  }
}

static void too_large(void) {
  void *block = malloc(1000);
  paint(block, 1000, 1);
  for (unsigned i = 0; i < TOO_LARGE_COUNT; i++) {
    size_t size = TOO_LARGE[i];
    REFUSED(malloc(size), ENOMEM);
    REFUSED(calloc(1, size), ENOMEM);
    REFUSED(calloc(size, 1), ENOMEM);
    REFUSED(realloc(NULL, size), ENOMEM);
    REFUSED(realloc(block, size), ENOMEM);
    REFUSED(reallocarray(block, size, 1), ENOMEM);
    REFUSED(aligned_alloc(64, size), ENOMEM);
    REFUSED(aligned_alloc(1 << 26, size), ENOMEM);
    REFUSED(memalign(64, size), ENOMEM);
    REFUSED(valloc(size), ENOMEM);
    REFUSED(pvalloc(size), ENOMEM);
    errno = UNTOUCHED;
    void *slot = &slot;
    CHECK(posix_memalign(&slot, 64, size) == ENOMEM);
    CHECK(slot == &slot);
    CHECK(errno == UNTOUCHED);
    CHECK(is_painted(block, 1000, 1));
  }
  /* An alignment that no memory has. */
  REFUSED(aligned_alloc((size_t)1 << 63, 1), ENOMEM);
  REFUSED(aligned_alloc((size_t)1 << 62, (size_t)1 << 62), ENOMEM);
  free(block);
}

static void products_that_overflow(void) {
  const size_t half = (size_t)1 << 32;
  void *block = malloc(100);
  paint(block, 100, 3);
  REFUSED(calloc(half, half), ENOMEM);
  REFUSED(calloc(SIZE_MAX, 2), ENOMEM);
  REFUSED(calloc(SIZE_MAX / 2, 3), ENOMEM);
  REFUSED(calloc(half, half / 2), ENOMEM);
  REFUSED(reallocarray(block, half, half), ENOMEM);
  REFUSED(reallocarray(block, half + 1, half), ENOMEM);
  REFUSED(reallocarray(NULL, SIZE_MAX, 2), ENOMEM);
  CHECK(is_painted(block, 100, 3));
  free(block);
}

static void calloc_case(void) {
  /* Memory that was used before, of every size. */
  for (int round = 0; round < 3; round++) {
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
      size_t count = SIZES[i] > 300000 ? 1 : 20;
      void *blocks[20];
      for (size_t k = 0; k < count; k++) {
        blocks[k] = calloc(SIZES[i] / 4 + 1, 4);
        CHECK(is_aligned(blocks[k], MIN_ALIGN));
        CHECK(is_zero(blocks[k], (SIZES[i] / 4 + 1) * 4));
        memset(blocks[k], 0xff, malloc_usable_size(blocks[k]));
      }
      for (size_t k = 0; k < count; k++) free(blocks[k]);
    }
  }
  void *none = calloc(0, 8), *neither = calloc(8, 0);
  CHECK(none != NULL && neither != NULL && none != neither);
  free(none);
  free(neither);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static void realloc_case(void) {
  for (unsigned from = 0; from < SIZE_COUNT; from++) {
    for (unsigned to = 0; to < SIZE_COUNT; to++) {
      if (SIZES[to] == 0 || SIZES[from] + SIZES[to] > 50000000) continue;
      void *block = malloc(SIZES[from]);
      paint(block, smaller(SIZES[from], 100000), from);
      errno = UNTOUCHED;
      block = realloc(block, SIZES[to]);
      CHECK(block != NULL && errno == UNTOUCHED);
      CHECK(is_aligned(block, MIN_ALIGN));
      CHECK(malloc_usable_size(block) >= SIZES[to]);
      CHECK(is_painted(block, smaller(smaller(SIZES[from], SIZES[to]), 100000), from));
      ((char *)block)[SIZES[to] - 1] = 1;
      free(block);
    }
  }
  /* Grown step by step, as a buffer is, while others grow beside it. */
  void *grown[4] = {NULL, NULL, NULL, NULL};
  size_t before = 0;
  for (size_t size = 1; size < (size_t)64 << 20; size = size + size / 2 + 1) {
    for (unsigned i = 0; i < 4; i++) {
      grown[i] = realloc(grown[i], size);
      CHECK(grown[i] != NULL);
      CHECK(is_painted(grown[i], before, i));
      paint(grown[i], size, i);
    }
    before = size;
  }
  for (unsigned i = 0; i < 4; i++) {
    for (size_t size = before; size > 0; size /= 3) {
      grown[i] = realloc(grown[i], size);
      CHECK(is_painted(grown[i], size, i));
    }
    free(grown[i]);
  }
}

static void realloc_to_nothing(void) {
  for (unsigned i = 0; i < SIZE_COUNT; i++) {
    void *block = malloc(SIZES[i]);
    errno = UNTOUCHED;
    CHECK(realloc(block, 0) == NULL);
    CHECK(errno == UNTOUCHED);
    block = malloc(SIZES[i]);
    CHECK(reallocarray(block, 0, 8) == NULL);
    CHECK(errno == UNTOUCHED);
  }
  /* It was freed: otherwise this is 4 GB. */
  size_t before = resident_bytes();
  for (int i = 0; i < 1000; i++) {
    void *block = malloc(4 << 20);
    memset(block, 1, 4 << 20);
    CHECK(realloc(block, 0) == NULL);
  }
  CHECK(resident_bytes() < before + (256 << 20));
  void *block = realloc(NULL, 0);
  CHECK(block != NULL);
  free(block);
  block = reallocarray(NULL, 3, 5);
  CHECK(block != NULL && malloc_usable_size(block) >= 15);
  block = reallocarray(block, 300, 500);
  CHECK(block != NULL && malloc_usable_size(block) >= 150000);
  free(block);
}

static void *by_posix_memalign(size_t align, size_t size) {
  void *block = NULL;
  errno = UNTOUCHED;
  CHECK(posix_memalign(&block, align, size) == 0);
  CHECK(errno == UNTOUCHED);
  return block;
}

static void aligned_by(void *(*allocate)(size_t, size_t)) {
  for (size_t align = 8; align <= (size_t)64 << 20; align *= 2) {
    size_t sizes[] = {0, 1, align / 2, align - 1, align, align + 1, 3 * align, 100, 5000, 100000};
    void *blocks[10];
    for (unsigned i = 0; i < 10; i++) {
      if (sizes[i] > (size_t)100 << 20) sizes[i] = 1;
      blocks[i] = allocate(align, sizes[i]);
      CHECK(blocks[i] != NULL);
      CHECK(is_aligned(blocks[i], align));
      CHECK(malloc_usable_size(blocks[i]) >= sizes[i]);
      for (unsigned k = 0; k < i; k++) CHECK(blocks[i] != blocks[k]);
      paint(blocks[i], smaller(sizes[i], 300000), i);
    }
    for (unsigned i = 0; i < 10; i++) {
      CHECK(is_painted(blocks[i], smaller(sizes[i], 300000), i));
      size_t kept = smaller(sizes[i], 300000);
      /* What was aligned can be grown, and shrunk, like anything else. */
      if (i % 2 == 0) {
        blocks[i] = realloc(blocks[i], sizes[i] * 2 + 1);
        CHECK(blocks[i] != NULL && is_painted(blocks[i], kept, i));
        blocks[i] = realloc(blocks[i], kept / 2 + 1);
        CHECK(blocks[i] != NULL && is_painted(blocks[i], kept / 2, i));
      }
      free(blocks[i]);
    }
  }
  /* Many at once, so that alignment is not luck. */
  static void *many[2000];
  for (size_t align = 32; align <= 65536; align *= 2) {
    for (unsigned i = 0; i < 2000; i++) {
      many[i] = allocate(align, i % 300);
      CHECK(is_aligned(many[i], align));
      memset(many[i], (int)i, i % 300);
    }
    for (unsigned i = 0; i < 2000; i++) free(many[i]);
  }
}

static void posix_memalign_case(void) {
  aligned_by(by_posix_memalign);
  const size_t wrong[] = {0, 1, 2, 3, 4, 5, 12, 24, 100, SIZE_MAX, ((size_t)1 << 63) + 8};
  for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    void *slot = &slot;
    errno = UNTOUCHED;
    CHECK(posix_memalign(&slot, wrong[i], 100) == EINVAL);
    CHECK(slot == &slot && errno == UNTOUCHED);
  }
}

static void aligned_alloc_case(void) {
  aligned_by(aligned_alloc);
  const size_t wrong[] = {0, 3, 12, 24, 100, SIZE_MAX, ((size_t)1 << 63) + 8};
  for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    REFUSED(aligned_alloc(wrong[i], 100), EINVAL);
  for (size_t align = 1; align <= 4; align *= 2) {
    void *block = aligned_alloc(align, 3);
    CHECK(block != NULL && is_aligned(block, MIN_ALIGN));
    free(block);
  }
}

static void memalign_case(void) {
  aligned_by(memalign);
  /* Rounded up to a power of two. */
  void *block = memalign(24, 100);
  CHECK(block != NULL && is_aligned(block, 32));
  free(block);
  block = memalign(3000, 100);
  CHECK(block != NULL && is_aligned(block, 4096));
  free(block);
  block = memalign(0, 100);
  CHECK(block != NULL && is_aligned(block, MIN_ALIGN));
  free(block);
  REFUSED(memalign(SIZE_MAX, 100), EINVAL);
}

static void whole_pages(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (unsigned i = 0; i < SIZE_COUNT; i++) {
    void *aligned = valloc(SIZES[i]), *rounded = pvalloc(SIZES[i]);
    CHECK(aligned != NULL && is_aligned(aligned, page));
    CHECK(rounded != NULL && is_aligned(rounded, page));
    size_t whole = (SIZES[i] + page - 1) / page * page;
    CHECK(malloc_usable_size(rounded) >= whole);
    memset(aligned, 1, SIZES[i]);
    memset(rounded, 2, whole);
    CHECK(SIZES[i] == 0 || *(char *)aligned == 1);
    free(aligned);
    free(rounded);
  }
}

static void usable_size(void) {
  CHECK(malloc_usable_size(NULL) == 0);
  void *blocks[3][SIZE_COUNT];
  /* All of it is the caller's, up to the last byte. */
  for (unsigned i = 0; i < SIZE_COUNT; i++) {
    if (SIZES[i] > 5000000) continue;
    for (unsigned k = 0; k < 3; k++) {
      blocks[k][i] = malloc(SIZES[i]);
      paint(blocks[k][i], malloc_usable_size(blocks[k][i]), i * 3 + k);
    }
  }
  for (unsigned i = 0; i < SIZE_COUNT; i++) {
    if (SIZES[i] > 5000000) continue;
    for (unsigned k = 0; k < 3; k++) {
      size_t usable = malloc_usable_size(blocks[k][i]);
      CHECK(is_painted(blocks[k][i], usable, i * 3 + k));
      /* Growing into it keeps it. */
      blocks[k][i] = realloc(blocks[k][i], usable == 0 ? 1 : usable);
      CHECK(is_painted(blocks[k][i], usable, i * 3 + k));
      free(blocks[k][i]);
    }
  }
}

static void free_keeps_errno(void) {
  errno = UNTOUCHED;
  free(NULL);
  CHECK(errno == UNTOUCHED);
  for (int round = 0; round < 2; round++) {
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
      static void *blocks[3000];
      unsigned count = SIZES[i] > 10000 ? 3 : 3000;
      for (unsigned k = 0; k < count; k++) {
        blocks[k] = malloc(SIZES[i]);
        CHECK(blocks[k] != NULL);
        memset(blocks[k], 1, SIZES[i]);
      }
      errno = UNTOUCHED;
      for (unsigned k = 0; k < count; k++) free(blocks[k]);
      CHECK(errno == UNTOUCHED);
    }
  }
  malloc_trim(0);
  CHECK(errno == UNTOUCHED);
}

static void sized_frees(void) {
  for (unsigned i = 0; i < SIZE_COUNT; i++) {
    errno = UNTOUCHED;
    free_sized(malloc(SIZES[i]), SIZES[i]);
    free_aligned_sized(aligned_alloc(256, SIZES[i]), 256, SIZES[i]);
    CHECK(errno == UNTOUCHED);
  }
  free_sized(NULL, 10);
  free_aligned_sized(NULL, 64, 10);
}

/* Frees so much at once that no cache keeps it, and trims it away. */
static void trim(void) {
  enum { COUNT = 64 * 1024, BYTES = 1000 };
  static void *blocks[COUNT];
  void *large[16];
  for (int round = 0; round < 2; round++) {
    size_t before = resident_bytes();
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = memset(malloc(BYTES), 1, BYTES);
    for (unsigned i = 0; i < 16; i++) large[i] = memset(malloc(1 << 20), 1, 1 << 20);
    CHECK(resident_bytes() > before + (64 << 20));
    for (unsigned i = 0; i < COUNT; i++) free(blocks[i]);
    for (unsigned i = 0; i < 16; i++) free(large[i]);
    int first = round == 0 ? malloc_trim(0) : steppe_malloc_trim();
    CHECK(first == 1);
    CHECK(resident_bytes() < before + (8 << 20));
  }
  /* Nothing is left to give back; it may find a page more, but not for ever. */
  int tries = 0;
  while (malloc_trim(0) != 0) CHECK(++tries < 5);
}

static void figures(void) {
  enum { COUNT = 10000, BYTES = 1000 };
  static void *blocks[COUNT];
  struct mallinfo2 before = mallinfo2();
  for (unsigned i = 0; i < COUNT; i++) blocks[i] = malloc(BYTES);
  void *large = malloc(32 << 20);
  struct mallinfo2 during = mallinfo2();
  CHECK(during.uordblks >= before.uordblks + COUNT * BYTES);
  CHECK(during.uordblks < before.uordblks + COUNT * BYTES * 2);
  CHECK(during.hblkhd >= before.hblkhd + (32 << 20) && during.hblks > 0);
  CHECK(during.arena >= during.uordblks);
  struct steppe_malloc_stats stats;
  CHECK(steppe_malloc_stats(&stats, sizeof stats) == sizeof stats);
  CHECK(stats.live_bytes >= COUNT * BYTES + (32 << 20));
  CHECK(stats.mapped_bytes >= stats.live_bytes);
  CHECK(stats.mapped_bytes_peak >= stats.mapped_bytes);
  CHECK(stats.huge_bytes >= (32 << 20) && stats.huge_bytes <= stats.live_bytes);
  /* As much as there is room for. */
  size_t first[2] = {0, UNTOUCHED};
  CHECK(steppe_malloc_stats((struct steppe_malloc_stats *)first, sizeof first[0]) == sizeof first[0]);
  CHECK(first[0] >= COUNT * BYTES && first[1] == UNTOUCHED);
  for (unsigned i = 0; i < COUNT; i++) free(blocks[i]);
  free(large);
  struct mallinfo2 after = mallinfo2();
  CHECK(after.uordblks < during.uordblks - COUNT * BYTES / 2);
  CHECK(after.hblkhd < during.hblkhd);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  CHECK(narrow.uordblks >= 0 && narrow.arena >= 0 && narrow.hblkhd >= 0);
}

static void info(void) {
  void *block = malloc(100000);
  CHECK(malloc_info(0, stdout) == 0);
  CHECK(malloc_info(1, stdout) == EINVAL);
  free(block);
}

static void stats(void) {
  void *block = malloc(100000);
  malloc_stats();
  free(block);
}

static void options(void) {
  /* Arenas, bins and thresholds that do not exist. */
  CHECK(mallopt(M_ARENA_MAX, 1) == 0);
  CHECK(mallopt(M_MMAP_THRESHOLD, 65536) == 0);
  CHECK(mallopt(M_MXFAST, 64) == 0);
  CHECK(mallopt(12345, 1) == 0);
  /* Android's M_DECAY_TIME, M_PURGE, M_PURGE_ALL. */
  CHECK(mallopt(-100, 0) == 1);
  CHECK(strcmp(steppe_malloc_profile(), "lean") == 0);
  CHECK(mallopt(-100, 1) == 1);
  CHECK(strcmp(steppe_malloc_profile(), "balanced") == 0);
  CHECK(mallopt(-100, 7) == 0);
  CHECK(mallopt(-101, 0) == 1);
  CHECK(mallopt(-104, 0) == 1);
}

static void profiles(void) {
  const char *names[] = {"speed", "lean", "balanced"};
  for (unsigned i = 0; i < 3; i++) {
    CHECK(steppe_malloc_set_profile(names[i]) == 0);
    CHECK(strcmp(steppe_malloc_profile(), names[i]) == 0);
    void *block = malloc(100);
    CHECK(block != NULL);
    free(block);
  }
  errno = 0;
  CHECK(steppe_malloc_set_profile("fast") == -1 && errno == EINVAL);
  errno = 0;
  CHECK(steppe_malloc_set_profile(NULL) == -1 && errno == EINVAL);
  CHECK(strcmp(steppe_malloc_profile(), "balanced") == 0);
}

static void to_stderr(void *context, const char *text, size_t len) {
  CHECK(fwrite(text, 1, len, (FILE *)context) == len);
}

/* The same object three times, a line each. */
static void json(void) {
  void *block = malloc(100000);
  CHECK(steppe_malloc_stats_json_file(stdout) == 0);
  CHECK(putchar('\n') == '\n' && fflush(stdout) == 0);
  CHECK(steppe_malloc_stats_json(to_stderr, stdout) == 0);
  CHECK(putchar('\n') == '\n' && fflush(stdout) == 0);
  CHECK(steppe_malloc_stats_json_fd(1) == 0);
  errno = 0;
  CHECK(steppe_malloc_stats_json_fd(-1) == -1 && errno == EBADF);
  CHECK(steppe_malloc_stats_json(NULL, NULL) == -1 && errno == EINVAL);
  free(block);
}

static void whose(void) {
  int local = 0;
  static int global;
  CHECK(steppe_malloc_version()[0] >= '0' && steppe_malloc_version()[0] <= '9');
  for (unsigned i = 0; i < SIZE_COUNT; i++) {
    void *block = malloc(SIZES[i]);
    CHECK(steppe_malloc_owns(block) == 1);
    free(block);
  }
  CHECK(steppe_malloc_owns(&local) == 0);
  CHECK(steppe_malloc_owns(&global) == 0);
  CHECK(steppe_malloc_owns(NULL) == 0);
  steppe_malloc_on_idle();
}

/* A profile of a megabyte, on standard output. */
static void heap_profile(void) {
  static char *blocks[1000];
  CHECK(steppe_malloc_heap_profile_write(NULL) == -1 && errno == EINVAL);
  CHECK(steppe_malloc_heap_profile_write("/nowhere/file") == -1);
  CHECK(steppe_malloc_heap_profile_start(10000) == 0);
  for (unsigned i = 0; i < 1000; i++) {
    blocks[i] = malloc(1000);
    CHECK(blocks[i] != NULL && is_aligned(blocks[i], MIN_ALIGN));
    paint(blocks[i], 1000, i);
  }
  CHECK(steppe_malloc_heap_profile_write("/proc/self/fd/1") == 0);
  for (unsigned i = 0; i < 1000; i++) {
    CHECK(is_painted(blocks[i], 1000, i));
    blocks[i] = realloc(blocks[i], 3000);
    CHECK(is_painted(blocks[i], 1000, i));
    CHECK(malloc_usable_size(blocks[i]) >= 3000);
  }
  steppe_malloc_heap_profile_stop();
  for (unsigned i = 0; i < 1000; i++) free(blocks[i]);
}

/* What the C library allocates is ours to free. */
static void the_c_library(void) {
  char *text = strdup("text");
  CHECK(steppe_malloc_owns(text));
  free(text);
  char *line = NULL;
  size_t line_bytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  CHECK(getline(&line, &line_bytes, file) > 0);
  free(line);
  fclose(file);
  char *printed = NULL;
  CHECK(asprintf(&printed, "%0500d", 7) == 500);
  free(printed);
  char *path = realpath("/proc/self/exe", NULL);
  CHECK(path != NULL);
  free(path);
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"malloc", malloc_case},
      {"every_size", every_size},
      {"too_large", too_large},
      {"products_that_overflow", products_that_overflow},
      {"calloc", calloc_case},
      {"realloc", realloc_case},
      {"realloc_to_nothing", realloc_to_nothing},
      {"posix_memalign", posix_memalign_case},
      {"aligned_alloc", aligned_alloc_case},
      {"memalign", memalign_case},
      {"whole_pages", whole_pages},
      {"usable_size", usable_size},
      {"free_keeps_errno", free_keeps_errno},
      {"sized_frees", sized_frees},
      {"trim", trim},
      {"figures", figures},
      {"info", info},
      {"stats", stats},
      {"options", options},
      {"profiles", profiles},
      {"json", json},
      {"whose", whose},
      {"heap_profile", heap_profile},
      {"the_c_library", the_c_library},
      {NULL, NULL},
  };
  return run_case(cases, argc, argv);
}
