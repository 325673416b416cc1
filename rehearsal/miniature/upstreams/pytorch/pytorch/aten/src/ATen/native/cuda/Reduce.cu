#include <cuda_runtime.h>
#include <torch/torch.h>

#include <numeric>
#include <regex>
#include <valarray>

namespace at::native {

double reduce(const std::string& values) {
  static const std::regex number(R"([0-9]+(\.[0-9]+)?)");
  double sum = 0;
  for (std::sregex_iterator match(values.begin(), values.end(), number), end; match != end; ++match) {
    sum += std::stod(match->str());
  }
  return std::valarray<double>(sum, 1).sum();
}

} // namespace at::native
