#pragma once

#include <cstddef>
#include <string>

namespace ck_tile {

inline std::string repeat(char value, std::size_t count) {
  return std::string(count, value);
}

} // namespace ck_tile
