#include <cuda_runtime.h>

#include "ops/nms.h"

#include <map>
#include <regex>

namespace vision::ops {

std::string nms_gpu(const std::string& boxes) {
  std::map<std::string, int> ranges;
  const std::regex range(R"(\d+-\d+)");
  for (std::sregex_iterator match(boxes.begin(), boxes.end(), range), end; match != end; ++match) {
    ++ranges[match->str()];
  }
  return std::to_string(ranges.size());
}

std::string compiled_for() {
  std::string names;
#ifdef __gfx942__
  names += " gfx942";
#endif
#ifdef __gfx950__
  names += " gfx950";
#endif
#ifdef __gfx1201__
  names += " gfx1201";
#endif
  return names.empty() ? names : names.substr(1);
}

} // namespace vision::ops
