#include <nixl.h>

#include <map>
#include <regex>

namespace nixl {

std::string describe(const std::string& agent, const std::vector<std::string>& backends) {
  static const std::regex word(R"(\w+)");
  std::map<std::string, int> known;
  for (const auto& backend : backends) {
    for (std::sregex_iterator match(backend.begin(), backend.end(), word), end; match != end; ++match) {
      ++known[match->str()];
    }
  }
  std::string text = agent + ":";
  for (const auto& [name, count] : known) {
    text += " " + name;
  }
  return text;
}

} // namespace nixl
