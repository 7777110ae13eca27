// What threads do while they end: destructors of C++ and of pthread keys that allocate and free, in
// every round that pthread gives them, and blocks that outlive their thread.
#include <pthread.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

static pthread_key_t early, late;

struct Held {
  std::map<int, std::string> words;
  std::vector<std::unique_ptr<std::string>> strings;
  ~Held() {
    // Frees what the thread had, and allocates once more.
    strings.clear();
    words[1] = std::string(500, 'z');
    words.clear();
    strings.push_back(std::make_unique<std::string>(3000, 'q'));
  }
};

static thread_local Held held;

static std::atomic<long> destroyed{0};

// Runs again and again, as often as pthread allows.
static void destroy(void *value) {
  char *block = static_cast<char *>(value);
  CHECK(is_painted(block, 200, 9));
  free(block);
  for (size_t size = 1; size < 300000; size *= 3) {
    char *other = static_cast<char *>(malloc(size));
    CHECK(other != nullptr);
    memset(other, 3, size);
    free(other);
  }
  char *next = static_cast<char *>(malloc(200));
  paint(next, 200, 9);
  long round = ++destroyed;
  if (round % 4 == 0) {
    free(next);
  } else {
    pthread_setspecific(round % 2 == 0 ? early : late, next);
  }
}

static std::atomic<std::string *> handed_over{nullptr};

static void work(int seed) {
  char *block = static_cast<char *>(malloc(200));
  paint(block, 200, 9);
  pthread_setspecific(seed % 2 == 0 ? early : late, block);
  for (int i = 0; i < 200; i++) {
    held.words[i * seed % 97] = std::string(static_cast<size_t>(i * 7 % 300), 'w');
    held.strings.push_back(std::make_unique<std::string>(static_cast<size_t>(i % 100), 's'));
  }
  // A block for a thread that comes later, freed when this one is long gone.
  delete handed_over.exchange(new std::string(100 + static_cast<size_t>(seed) % 5000, 'h'));
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const int count = atoi(argv[1]);
  CHECK(pthread_key_create(&early, destroy) == 0);
  CHECK(pthread_key_create(&late, destroy) == 0);
  size_t resident = 0;
  for (int round = 0; round < count; round += 4) {
    std::thread threads[4];
    for (int i = 0; i < 4; i++) threads[i] = std::thread(work, round + i);
    // Some are waited for, the others end when they like.
    threads[0].join();
    threads[1].join();
    threads[2].join();
    threads[3].join();
    if (round >= count / 4 && resident == 0) resident = resident_bytes();
  }
  delete handed_over.exchange(nullptr);
  CHECK(destroyed > count);
  // Short threads leave nothing behind.
  CHECK(resident_bytes() < resident + (16 << 20));
  return 0;
}
