#pragma once

#include <string>
#include <vector>

namespace triton {

std::vector<std::string> parse(const std::string &source);
std::string run_passes(const std::vector<std::string> &operations);

} // namespace triton
