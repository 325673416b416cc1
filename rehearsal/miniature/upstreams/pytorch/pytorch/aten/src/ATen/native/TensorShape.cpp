#include <torch/torch.h>

#include <algorithm>
#include <regex>
#include <vector>

namespace at::native {

static std::vector<int> sizes(const std::string& shape) {
  static const std::regex number("[0-9]+");
  std::vector<int> found;
  for (std::sregex_iterator match(shape.begin(), shape.end(), number), end; match != end; ++match) {
    found.push_back(std::stoi(match->str()));
  }
  return found;
}

std::string infer_size(const std::string& shapes) {
  const auto comma = shapes.find(',');
  auto left = sizes(shapes.substr(0, comma)), right = sizes(shapes.substr(comma + 1));
  if (left.size() < right.size()) {
    std::swap(left, right);
  }
  const auto offset = left.size() - right.size();
  std::string result;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const int size = i < offset ? left[i] : std::max(left[i], right[i - offset]);
    result += (i ? "x" : "") + std::to_string(size);
  }
  return result;
}

} // namespace at::native
