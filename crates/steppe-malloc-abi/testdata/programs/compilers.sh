#!/bin/sh
# The objects that g++, clang and rustc make are the same, and so is what they do.
. "$(dirname "$0")/lib.sh"
cat >a.cc <<'END'
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <thread>
#include <vector>
int main() {
  std::map<std::string, std::vector<int>> words;
  for (int i = 0; i < 100000; i++) words["k" + std::to_string(i % 1000)].push_back(i);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; t++) threads.emplace_back([t] { std::string s; for (int i = 0; i < 100000; i++) s += char('a' + (i + t) % 26); });
  for (auto &thread : threads) thread.join();
  std::regex pattern("k([0-9])\\1+");
  std::cout << words.size() << ' ' << std::count_if(words.begin(), words.end(), [&](auto &w) { return std::regex_match(w.first, pattern); }) << std::endl;
  try { throw std::runtime_error("thrown"); } catch (const std::exception &e) { std::cout << e.what() << std::endl; }
}
END
compiled=
for compiler in g++ clang++; do
  command -v $compiler >/dev/null || continue
  compiled="$compiled $compiler"
  $compiler -std=c++17 -O2 -pthread -c a.cc -o a.o
  sha256sum a.o
  $compiler -pthread a.o -o a
  ./a
done
# Of the toolchain itself: rustup asks the home folder which one to start.
rustc=${RUSTC:-rustc}
if "$rustc" --version >/dev/null 2>&1; then
  compiled="$compiled rustc"
  "$rustc" --edition 2024 -O -C metadata=steppe "$here/../small.rs" -o small
  ./small
fi
[ -n "$compiled" ] || missing "no compiler is installed"
