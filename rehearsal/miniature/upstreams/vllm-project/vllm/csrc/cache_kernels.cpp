#include <map>
#include <regex>
#include <string>

// Pairs of blocks (from:to), by where they go.
std::string swap_blocks(const std::string& mapping) {
  static const std::regex pair(R"((\d+):(\d+))");
  std::map<int, int> by_target;
  for (std::sregex_iterator match(mapping.begin(), mapping.end(), pair), end; match != end; ++match) {
    by_target[std::stoi(match->str(2))] = std::stoi(match->str(1));
  }
  std::string text;
  for (const auto& [target, source] : by_target) {
    text += std::to_string(target) + "<" + std::to_string(source) + " ";
  }
  return text;
}
