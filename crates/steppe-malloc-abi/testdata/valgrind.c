/* Blocks of each function that hands some out, freed by each that takes some back, for tools that replace functions of
 * malloc by their names: a function that they do not know must not hand out a block of another allocator. */
#include <malloc.h>

#include "check.h"

/* C23 7.24.3: not declared by glibc 2.36. */
void free_sized(void *block, size_t bytes);
void free_aligned_sized(void *block, size_t align, size_t bytes);

enum { FORMS = 9 };

static void *make(int form, size_t bytes) {
  void *block = NULL;
  switch (form) {
    case 0: return malloc(bytes);
    case 1: return calloc(1, bytes);
    case 2: return realloc(NULL, bytes);
    case 3: return reallocarray(NULL, 1, bytes);
    case 4: return aligned_alloc(64, bytes);
    case 5: return posix_memalign(&block, 64, bytes) == 0 ? block : NULL;
    case 6: return memalign(64, bytes);
    case 7: return valloc(bytes);
    default: return pvalloc(bytes);
  }
}

static void take_back(int form, void *block, size_t bytes) {
  switch (form) {
    case 0: free(block); break;
    case 1: CHECK(realloc(block, 0) == NULL); break;
    case 2: free(reallocarray(block, 2, bytes)); break;
    case 3: free(realloc(block, bytes * 3)); break;
    case 4: free_sized(block, bytes); break;
    default: free_aligned_sized(block, 64, bytes); break;
  }
}

int main(void) {
  static const size_t sizes[] = {1, 100, 5000, 100000, 1500000};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int from = 0; from < FORMS; from++) {
      for (int to = 0; to < 6; to++) {
        char *block = make(from, sizes[i]);
        CHECK(block != NULL);
        paint(block, sizes[i], i);
        CHECK(malloc_usable_size(block) >= sizes[i] && is_painted(block, sizes[i], i));
        take_back(to, block, sizes[i]);
      }
    }
  }
  return puts("done") < 0;
}
