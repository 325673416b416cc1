#include <nixl.h>

#include <filesystem>
#include <regex>

extern "C" __attribute__((visibility("default"))) const char* nixl_plugin_describe() {
  static const std::string text =
      nixl::describe("POSIX", {std::regex_replace(std::string("aio,uring"), std::regex(","), " ")});
  return text.c_str();
}
