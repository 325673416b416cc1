#include "ir.h"

#include <functional>
#include <map>
#include <regex>

namespace triton {

std::string run_passes(const std::vector<std::string> &operations) {
  const std::map<std::string, std::function<std::string(const std::string &)>> passes = {
      {"coalesce", [](const std::string &text) { return std::regex_replace(text, std::regex("tt\\."), "ttg."); }},
      {"fold", [](const std::string &text) { return std::regex_replace(text, std::regex("arith\\.constant "), ""); }}};
  std::string text;
  for (const auto &operation : operations) {
    text += operation + " ";
  }
  for (const auto &[name, pass] : passes) {
    text = pass(text);
  }
  return text;
}

} // namespace triton
