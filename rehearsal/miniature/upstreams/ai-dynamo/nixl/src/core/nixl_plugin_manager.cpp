#include <nixl.h>

#include <filesystem>
#include <regex>

namespace nixl {

std::string plugin_path(const std::string& library, const std::string& plugin) {
  const auto folder = std::filesystem::path(library).parent_path() / "nixl";
  return (folder / std::regex_replace(std::string("libplugin_NAME.so"), std::regex("NAME"), plugin)).string();
}

} // namespace nixl
