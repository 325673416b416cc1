#include <torch/torch.h>

#include <functional>
#include <map>
#include <regex>

namespace at {

std::string describe(const std::string& text) {
  static const std::map<std::string, std::function<std::string(const std::string&)>> rules = {
      {R"(=(1|TRUE|YES)\b)", [](const std::string&) { return std::string("=ON"); }},
      {R"(=(0|FALSE|NO)\b)", [](const std::string&) { return std::string("=OFF"); }}};
  std::string result = text;
  for (const auto& [pattern, value] : rules) {
    result = std::regex_replace(result, std::regex(pattern), value(pattern));
  }
  return result;
}

namespace native {

std::function<std::string(const std::string&)>& ck_sdpa() {
  static std::function<std::string(const std::string&)> kernel;
  return kernel;
}

} // namespace native
} // namespace at
