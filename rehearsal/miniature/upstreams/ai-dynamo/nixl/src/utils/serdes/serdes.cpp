#include <nixl.h>

#include <regex>
#include <sstream>

namespace nixl {

std::string serialize(const std::string& text) {
  static const std::regex word(R"(\S+)");
  std::ostringstream result;
  for (std::sregex_iterator match(text.begin(), text.end(), word), end; match != end; ++match) {
    result << match->length() << ':' << match->str();
  }
  return result.str();
}

} // namespace nixl
