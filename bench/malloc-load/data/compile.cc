// What the bench has a compiler translate: templates of the standard library, each instantiated for a few types.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N>
struct Key {
  std::string name;
  std::tuple<int, long, double> parts;
  bool operator<(const Key &other) const { return std::tie(name, parts) < std::tie(other.name, other.parts); }
};

template <int N>
using Value = std::variant<int, double, std::string, std::vector<Key<N>>>;

template <int N>
std::size_t work(const std::vector<std::string> &words) {
  std::map<Key<N>, Value<N>> tree;
  std::unordered_map<std::string, std::shared_ptr<Key<N>>> table;
  std::set<std::pair<std::string, int>> seen;
  for (const auto &word : words) {
    Key<N> key{word, {N, static_cast<long>(word.size()), 0.5}};
    table.emplace(word, std::make_shared<Key<N>>(key));
    tree[key] = std::vector<Key<N>>(3, key);
    seen.insert({word, N});
  }
  std::vector<std::function<std::size_t(std::size_t)>> steps;
  for (int i = 0; i < N; i++) steps.push_back([i](std::size_t sum) { return sum * 31 + static_cast<std::size_t>(i); });
  std::size_t sum = std::accumulate(words.begin(), words.end(), std::size_t{0},
                                    [](std::size_t so_far, const std::string &word) { return so_far + word.size(); });
  for (const auto &step : steps) sum = step(sum);
  std::ostringstream text;
  for (const auto &[key, value] : tree) text << key.name << value.index() << ' ';
  return sum + text.str().size() + table.size() + seen.size();
}

std::size_t all(const std::vector<std::string> &words) {
  return work<1>(words) + work<2>(words) + work<3>(words);
}
