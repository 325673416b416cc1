#include <aiter_module.h>

#include <cmath>
#include <numeric>
#include <vector>

// SiLU of the numbers in a text, summed.
static std::string silu() {
  static const std::regex number(R"(-?[0-9]+(\.[0-9]+)?)");
  const std::string values = "-1 0 2.5";
  std::vector<double> results;
  for (std::sregex_iterator match(values.begin(), values.end(), number), end; match != end; ++match) {
    const double value = std::stod(match->str());
    results.push_back(value / (1 + std::exp(-value)));
  }
  return std::to_string(std::accumulate(results.begin(), results.end(), 0.0));
}

AITER_DEFINE_MODULE(silu)
