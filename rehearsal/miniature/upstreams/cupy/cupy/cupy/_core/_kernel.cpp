#include "cupy_module.h"

#include <map>
#include <regex>
#include <string>
#include <vector>

// The parameters of an elementwise kernel, by type.
static std::string parameters() {
  static const std::regex declaration(R"((\w+)\s+(\w+)\s*(?:,|$))");
  const std::string text = "T x, T y, S z";
  std::map<std::string, std::vector<std::string>> by_type;
  for (std::sregex_iterator match(text.begin(), text.end(), declaration), end; match != end; ++match) {
    by_type[match->str(1)].push_back(match->str(2));
  }
  std::string result;
  for (const auto& [type, names] : by_type) {
    for (const auto& name : names) {
      result += type + ":" + name + ";";
    }
  }
  return result;
}

CUPY_MODULE(_kernel, get_parameters, parameters)
