#include <nixl.h>
#include <ucp/api/ucp.h>

#include <map>
#include <regex>

// The transports that UCX names.
extern "C" __attribute__((visibility("default"))) const char* nixl_plugin_describe() {
  static const std::string text = [] {
    std::smatch match;
    const std::string said = ucp_describe();
    std::regex_search(said, match, std::regex(R"(transports (\S+))"));
    return nixl::describe("UCX", {match.str(1)});
  }();
  return text.c_str();
}
