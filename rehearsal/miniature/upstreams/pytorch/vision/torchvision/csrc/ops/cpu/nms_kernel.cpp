#include "ops/nms.h"

#include <algorithm>
#include <regex>
#include <vector>

namespace vision::ops {

std::string nms_cpu(const std::string& boxes) {
  struct Box {
    int index, from, to;
    double score;
  };
  std::vector<Box> found;
  const std::regex box(R"((\d+)-(\d+):([\d.]+))");
  for (std::sregex_iterator match(boxes.begin(), boxes.end(), box), end; match != end; ++match) {
    found.push_back({static_cast<int>(found.size()), std::stoi((*match)[1]), std::stoi((*match)[2]), std::stod((*match)[3])});
  }
  std::stable_sort(found.begin(), found.end(), [](const Box& a, const Box& b) { return a.score > b.score; });
  std::vector<Box> kept;
  for (const auto& candidate : found) {
    if (std::none_of(kept.begin(), kept.end(), [&](const Box& other) {
          return std::min(other.to, candidate.to) > std::max(other.from, candidate.from);
        })) {
      kept.push_back(candidate);
    }
  }
  std::string indices;
  for (const auto& box : kept) {
    indices += (indices.empty() ? "" : ",") + std::to_string(box.index);
  }
  return indices;
}

} // namespace vision::ops
