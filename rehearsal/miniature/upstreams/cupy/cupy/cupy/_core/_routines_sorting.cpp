#include "cupy_module.h"

#include <algorithm>
#include <functional>
#include <regex>
#include <string>
#include <vector>

static std::string sorted() {
  static const std::regex blank(R"(\s+)");
  const std::string text = "gamma alpha beta";
  std::vector<std::string> words(std::sregex_token_iterator(text.begin(), text.end(), blank, -1), {});
  const std::function<bool(const std::string&, const std::string&)> less = std::less<std::string>();
  std::stable_sort(words.begin(), words.end(), less);
  std::string result;
  for (const auto& word : words) {
    result += word + " ";
  }
  return result;
}

CUPY_MODULE(_routines_sorting, sort, sorted)
