#pragma once

#include <string>

namespace vision::ops {

// Indices of the boxes that stay, of boxes such as "0-10:0.9,1-10:0.8", each a range and a score.
std::string nms_cpu(const std::string& boxes);
std::string nms_gpu(const std::string& boxes);

// The GPU architectures that nms_gpu is compiled for.
std::string compiled_for();

} // namespace vision::ops
