#include <aiter_module.h>

#include <cmath>
#include <valarray>

static std::string rmsnorm() {
  const std::valarray<double> values = {3, 4, 12, 84};
  const double scale = std::sqrt((values * values).sum() / values.size());
  const std::map<std::string, double> named = {{"first", values[0] / scale}, {"last", values[3] / scale}};
  return std::regex_replace(std::to_string(named.at("last")), std::regex("0+$"), "");
}

AITER_DEFINE_MODULE(rmsnorm)
