#include "ir.h"

#include <regex>

namespace triton {

std::vector<std::string> parse(const std::string &source) {
  static const std::regex operation(R"((tt|arith)\.([a-z_]+))");
  std::vector<std::string> operations;
  for (std::sregex_iterator match(source.begin(), source.end(), operation), end; match != end; ++match) {
    operations.push_back(match->str());
  }
  return operations;
}

} // namespace triton
