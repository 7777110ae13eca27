// A program with a malloc of its own, and without operators: those of the C++ library are to call it.
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "check.h"

static const size_t HEADER = 16;
alignas(16) static char pool[16 << 20];
static size_t used;
static long live;

extern "C" {
void *malloc(size_t bytes) {
  size_t start = __atomic_fetch_add(&used, (bytes + 2 * HEADER - 1) & ~(HEADER - 1), __ATOMIC_RELAXED);
  if (start + bytes + HEADER > sizeof pool) return nullptr;
  memcpy(pool + start, &bytes, sizeof bytes);
  __atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
  return pool + start + HEADER;
}

void free(void *block) {
  if (block != nullptr) __atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
}

void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); }

void *realloc(void *block, size_t bytes) {
  void *moved = malloc(bytes);
  size_t old = 0;
  if (block == nullptr || moved == nullptr) return moved;
  memcpy(&old, static_cast<char *>(block) - HEADER, sizeof old);
  memcpy(moved, block, old < bytes ? old : bytes);
  free(block);
  return moved;
}
}

int main() {
  long before = live;
  for (size_t i = 1; i < 1000; i++) {
    delete new std::string(i, 'x');
    delete[] new char[i];
    ::operator delete(::operator new(i, std::nothrow), std::nothrow);
    auto shared = std::make_shared<std::string>(i, 'y');
    CHECK(live > before);
  }
  CHECK(live == before);
  return 0;
}
