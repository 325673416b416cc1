#include "module.h"

#include <chrono>
#include <map>
#include <regex>

// Which of some locks are held at a time, from lines of name=seconds.
static std::string held() {
  using namespace std::chrono_literals;
  static const std::regex line(R"((\w+)=(\d+))");
  const std::string text = "a=1 b=30 c=60";
  std::map<std::string, std::chrono::seconds> locks;
  for (std::sregex_iterator match(text.begin(), text.end(), line), end; match != end; ++match) {
    locks[match->str(1)] = std::chrono::seconds(std::stoi(match->str(2)));
  }
  std::string names;
  for (const auto& [name, expires] : locks) {
    names += expires > 20s ? name : "";
  }
  return names;
}

LMCACHE_MODULE(held_locks, held)
