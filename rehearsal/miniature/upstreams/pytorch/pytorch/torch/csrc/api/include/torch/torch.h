#pragma once

#include <functional>
#include <string>

namespace at {

std::string describe(const std::string& text);

namespace native {

// The shape that two shapes broadcast to: "2x3,3" to "2x3".
std::string infer_size(const std::string& shapes);

// A GPU kernel's entry, in libtorch_hip.
std::string sort(const std::string& values);
double reduce(const std::string& values);

// Attention by Composable Kernel, which is empty in a build without it.
std::function<std::string(const std::string&)>& ck_sdpa();

} // namespace native
} // namespace at
