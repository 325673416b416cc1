#include <cuda_runtime.h>

#include <map>
#include <regex>
#include <string>

std::string architectures() {
  const std::map<std::string, int> compiled = {
#ifdef __gfx90a__
      {"gfx90a", 0x90a},
#endif
#ifdef __gfx942__
      {"gfx942", 0x942},
#endif
#ifdef __gfx950__
      {"gfx950", 0x950},
#endif
#ifdef __gfx1201__
      {"gfx1201", 0x1201},
#endif
  };
  std::string names;
  for (const auto& [name, number] : compiled) {
    names += name + ",";
  }
  return std::regex_replace(names, std::regex(",$"), "");
}
