#include "module.h"

#include <map>
#include <regex>

std::string architectures();
std::string rotate(const std::string& text);

// What the GPU sources were compiled for, and that their code and PyTorch's run.
static std::string describe() {
  const std::map<std::string, std::string> parts = {
      {"archs", architectures()}, {"rotated", rotate("cache")}, {"shape", at::native::infer_size("2x3,3")}};
  std::string text;
  for (const auto& [name, value] : parts) {
    text += name + "=" + value + " ";
  }
  return std::regex_replace(text, std::regex(" $"), "");
}

LMCACHE_MODULE(info, describe)
