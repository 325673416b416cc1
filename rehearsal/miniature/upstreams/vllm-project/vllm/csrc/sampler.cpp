#include <algorithm>
#include <functional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

std::string top_tokens(const std::string& scores) {
  static const std::regex score(R"((\w)=(\d+))");
  std::vector<std::pair<int, std::string>> found;
  for (std::sregex_iterator match(scores.begin(), scores.end(), score), end; match != end; ++match) {
    found.emplace_back(std::stoi(match->str(2)), match->str(1));
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  std::string text;
  for (const auto& [value, token] : found) {
    text += token;
  }
  return text;
}
