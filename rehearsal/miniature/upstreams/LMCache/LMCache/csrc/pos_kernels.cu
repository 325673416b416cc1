#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <string>

std::string rotate(const std::string& text) {
  std::string letters = std::regex_replace(text, std::regex("[^a-z]"), "");
  const std::function<char(char)> next = [](char letter) { return letter == 'z' ? 'a' : char(letter + 1); };
  std::transform(letters.begin(), letters.end(), letters.begin(), next);
  return letters;
}
