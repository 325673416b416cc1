#pragma once

#include <string>
#include <vector>

namespace nixl {

// Where a plugin's file is to be, next to the library.
std::string plugin_path(const std::string& library, const std::string& plugin);
// The words of a text, each with its length in front.
std::string serialize(const std::string& text);
// What an agent says of itself.
std::string describe(const std::string& agent, const std::vector<std::string>& backends);

} // namespace nixl
