#include <cuda_runtime.h>

#include <map>
#include <regex>
#include <string>

std::string paged_attention(const std::string& text) {
  std::map<char, int> counts;
  for (const char letter : std::regex_replace(text, std::regex("[^a-z]"), "")) {
    ++counts[letter];
  }
  std::string result;
  for (const auto& [letter, count] : counts) {
    result += letter + std::to_string(count);
  }
  return result;
}
