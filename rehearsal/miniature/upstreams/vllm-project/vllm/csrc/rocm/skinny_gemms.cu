#include <cuda_runtime.h>

#include <regex>
#include <set>
#include <string>

// Every architecture that this was compiled for, as hipcc's macros tell it.
std::string skinny_gemm() {
  const std::set<std::string> compiled = {
#ifdef __gfx90a__
      "gfx90a",
#endif
#ifdef __gfx942__
      "gfx942",
#endif
#ifdef __gfx950__
      "gfx950",
#endif
#ifdef __gfx1201__
      "gfx1201",
#endif
  };
  std::string names;
  for (const auto& name : compiled) {
    names += name + ",";
  }
  return std::regex_replace(names, std::regex(",$"), "");
}
