#include <cuda_runtime.h>
#include <torch/torch.h>
#include <ck_tile/core.hpp>

#include <map>
#include <regex>

namespace at::native {

std::string sort(const std::string& values) {
  std::map<char, int> counts;
  for (const char value : std::regex_replace(values, std::regex("[^a-z]"), "")) {
    ++counts[value];
  }
  std::string sorted;
  for (const auto& [value, count] : counts) {
    sorted += ck_tile::repeat(value, count);
  }
  return sorted;
}

} // namespace at::native
