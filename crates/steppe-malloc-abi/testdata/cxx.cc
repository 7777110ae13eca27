// Every form of operator new and delete, one case each; and the same with forms of the program's own
// when it is compiled with -DREPLACED.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include "check.h"

#ifdef REPLACED
// A header before every block: forms that are mixed with others are found out.
static const size_t HEADER = 64;
static long live_count;

// [new.delete.single]: the handler is called until there is memory, or none.
static char *allocate(size_t size, size_t align) {
  for (;;) {
    char *block = static_cast<char *>(aligned_alloc(align, size));
    if (block != nullptr) return block;
    std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void *operator new(size_t size) {
  char *block = allocate(size + HEADER, 16);
  memset(block, 'h', HEADER);
  live_count++;
  return block + HEADER;
}

void operator delete(void *pointer) noexcept {
  if (pointer == nullptr) return;
  char *block = static_cast<char *>(pointer) - HEADER;
  for (size_t i = 0; i < HEADER; i++) CHECK(block[i] == 'h');
  live_count--;
  free(block);
}

void *operator new(size_t size, std::align_val_t align) {
  size_t before = std::max(size_t(align), HEADER);
  char *block = allocate(before + size, size_t(align));
  memset(block + before - HEADER, 'w', HEADER);
  live_count++;
  return block + before;
}

void operator delete(void *pointer, std::align_val_t align) noexcept {
  if (pointer == nullptr) return;
  char *block = static_cast<char *>(pointer);
  for (size_t i = 1; i <= HEADER; i++) CHECK(block[-i] == 'w');
  live_count--;
  free(block - std::max(size_t(align), HEADER));
}
#endif

// The compiler may not leave out a pair of new and delete: these are calls, not expressions.
static const size_t SIZES[] = {0, 1, 8, 24, 100, 1000, 5000, 70000, 2000000, 9000000};

struct alignas(256) Wide {
  char bytes[300];
};

static void plain() {
  for (size_t size : SIZES) {
    for (int form = 0; form < 6; form++) {
      bool is_array = form >= 3;
      void *block = is_array ? ::operator new[](size) : ::operator new(size);
      CHECK(block != nullptr && is_aligned(block, 16));
      memset(block, 1, size);
      switch (form) {
        case 0: ::operator delete(block); break;
        case 1: ::operator delete(block, size); break;
        case 2: ::operator delete(block, std::nothrow); break;
        case 3: ::operator delete[](block); break;
        case 4: ::operator delete[](block, size); break;
        case 5: ::operator delete[](block, std::nothrow); break;
      }
    }
  }
  ::operator delete(nullptr);
  ::operator delete[](nullptr, 8);
}

static void nothrow() {
  for (size_t size : SIZES) {
    void *block = ::operator new(size, std::nothrow);
    CHECK(block != nullptr && is_aligned(block, 16));
    memset(block, 1, size);
    ::operator delete(block, std::nothrow);
    block = ::operator new[](size, std::nothrow);
    CHECK(block != nullptr && is_aligned(block, 16));
    memset(block, 1, size);
    ::operator delete[](block);
  }
  // What the library of C++ does itself.
  std::vector<std::string> words(5000, std::string(40, 'x'));
  std::stable_sort(words.begin(), words.end());
}

static void aligned() {
  for (size_t align = 1; align <= (size_t(16) << 20); align *= 2) {
    auto to = std::align_val_t(align);
    for (size_t size : SIZES) {
      for (int form = 0; form < 12; form++) {
        void *block = nullptr;
        switch (form / 3) {
          case 0: block = ::operator new(size, to); break;
          case 1: block = ::operator new[](size, to); break;
          case 2: block = ::operator new(size, to, std::nothrow); break;
          case 3: block = ::operator new[](size, to, std::nothrow); break;
        }
        CHECK(block != nullptr && is_aligned(block, align));
        memset(block, 1, std::min(size, size_t(10000)));
        bool is_array = form / 3 % 2 == 1;
        switch (form % 3 + (is_array ? 3 : 0)) {
          case 0: ::operator delete(block, to); break;
          case 1: ::operator delete(block, size, to); break;
          case 2: ::operator delete(block, to, std::nothrow); break;
          case 3: ::operator delete[](block, to); break;
          case 4: ::operator delete[](block, size, to); break;
          case 5: ::operator delete[](block, to, std::nothrow); break;
        }
      }
    }
  }
  Wide *wide = new Wide[7];
  CHECK(is_aligned(wide, 256));
  delete[] wide;
}

static bool is_refused(size_t size) {
  try {
    ::operator delete(::operator new(size));
    return false;
  } catch (const std::bad_alloc &) {
    return true;
  }
}

static void refusal() {
  const size_t huge = std::numeric_limits<std::ptrdiff_t>::max();
  auto to = std::align_val_t(4096);
  CHECK(is_refused(huge));
  CHECK(::operator new(huge, std::nothrow) == nullptr);
  CHECK(::operator new[](huge, std::nothrow) == nullptr);
  CHECK(::operator new(huge, to, std::nothrow) == nullptr);
  CHECK(::operator new[](huge, to, std::nothrow) == nullptr);
  try {
    ::operator delete(::operator new(huge, to), to);
    CHECK(!"aligned new did not throw");
  } catch (const std::bad_alloc &) {
  }
}

// Each form that returns null, and its delete.
static void *nothrow_form(int form, size_t size) {
  auto to = std::align_val_t(4096);
  switch (form) {
    case 0: return ::operator new(size, std::nothrow);
    case 1: return ::operator new[](size, std::nothrow);
    case 2: return ::operator new(size, to, std::nothrow);
    default: return ::operator new[](size, to, std::nothrow);
  }
}

static void delete_form(int form, void *block) {
  auto to = std::align_val_t(4096);
  switch (form) {
    case 0: return ::operator delete(block, std::nothrow);
    case 1: return ::operator delete[](block, std::nothrow);
    case 2: return ::operator delete(block, to, std::nothrow);
    default: return ::operator delete[](block, to, std::nothrow);
  }
}

static int handled;
static void *reserve;

// [new.handler]: each form calls it, as long as there is one.
static void handler() {
  const size_t huge = std::numeric_limits<std::ptrdiff_t>::max() - 8191;
  for (int form = 0; form < 4; form++) {
    handled = 0;
    std::set_new_handler([] {
      if (++handled == 3) std::set_new_handler(nullptr);
    });
    CHECK(nothrow_form(form, huge) == nullptr);
    CHECK(handled == 3);
    std::set_new_handler([] {
      handled++;
      throw std::bad_alloc();
    });
    CHECK(nothrow_form(form, huge) == nullptr);
    CHECK(handled == 4);
    CHECK(is_refused(huge));
    CHECK(handled == 5);
  }
}

// A handler that makes room is called once, and the request succeeds.
static void handler_frees() {
  const size_t room = size_t(256) << 20;
  for (int form = 0; form < 4; form++) {
    reserve = malloc(room);
    rlimit limit = {};
    CHECK(reserve != nullptr && getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = mapped_bytes() + room / 2;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    handled = 0;
    std::set_new_handler([] {
      CHECK(handled++ == 0);
      free(reserve);
    });
    void *block = nothrow_form(form, room / 4 * 3);
    CHECK(block != nullptr && handled == 1);
    delete_form(form, block);
    std::set_new_handler(nullptr);
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  }
}

// Under `ulimit -v`: new throws when there is no more, and works again when there is.
static void exhaustion() {
  for (size_t size : {size_t(100), size_t(30000), size_t(3000000)}) {
    struct Block {
      Block *next;
    };
    Block *blocks = nullptr;
    long count = 0;
    try {
      for (;;) {
        auto *block = static_cast<Block *>(::operator new(size));
        memset(static_cast<void *>(block), 1, size);
        block->next = blocks;
        blocks = block;
        count++;
        CHECK(count < 100000000);
      }
    } catch (const std::bad_alloc &) {
    }
    CHECK(count > 0);
    while (blocks != nullptr) {
      Block *next = blocks->next;
      ::operator delete(blocks);
      blocks = next;
    }
    delete[] new char[10000];
  }
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"plain", plain},     {"nothrow", nothrow}, {"aligned", aligned},
      {"refusal", refusal}, {"handler", handler}, {"handler_frees", handler_frees},
      {"exhaustion", exhaustion},
      {nullptr, nullptr},
  };
  int code = run_case(cases, argc, argv);
#ifdef REPLACED
  CHECK(live_count == 0);
#endif
  return code;
}
