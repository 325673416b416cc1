#include <aiter_module.h>

#include <functional>
#include <vector>

// Attention of a text to itself: each letter, as often as it is met.
static std::string mha_fwd() {
  std::map<char, std::function<std::string(std::size_t)>> heads;
  std::string result = "mha_fwd:";
  for (const char value : std::regex_replace(std::string("attention"), std::regex("[^aeiou]"), "")) {
    heads[value] = [value](std::size_t count) { return ck_tile::repeat(value, count); };
  }
  for (const auto& [value, head] : heads) {
    result += head(heads.size());
  }
  return result;
}

AITER_DEFINE_MODULE(mha_fwd)
