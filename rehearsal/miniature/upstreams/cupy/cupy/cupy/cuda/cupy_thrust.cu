#include <hip/hip_runtime.h>

#include <map>
#include <regex>
#include <string>

// Every architecture that this was compiled for, as hipcc's macros tell it.
std::string thrust_architectures() {
  const std::map<std::string, bool> known = {
#ifdef __gfx90a__
      {"gfx90a", true},
#endif
#ifdef __gfx942__
      {"gfx942", true},
#endif
#ifdef __gfx950__
      {"gfx950", true},
#endif
#ifdef __gfx1201__
      {"gfx1201", true},
#endif
  };
  std::string names;
  for (const auto& [name, compiled] : known) {
    names += name + ",";
  }
  return std::regex_replace(names, std::regex(",$"), "");
}
