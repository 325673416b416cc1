#include "module.h"

#include <filesystem>
#include <regex>
#include <set>

static std::string file_names() {
  std::set<std::string> names;
  for (const std::filesystem::path path : {"/cache/model@1.data", "/cache/model@1.meta", "/cache/other@2.data"}) {
    names.insert(std::regex_replace(path.stem().string(), std::regex("@[0-9]+$"), ""));
  }
  std::string joined;
  for (const auto& name : names) {
    joined += name + "/";
  }
  return joined;
}

LMCACHE_MODULE(models, file_names)
