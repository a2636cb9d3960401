// Questions about text as bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace unspool {

// How often `wanted`, which must not be empty, stands in `text`, no place overlapping the one before.
inline size_t count_of(std::string_view text, std::string_view wanted) {
  size_t count = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + wanted.size())) ++count;
  return count;
}

}  // namespace unspool
