// Names from files, made fit for one line of a message.
#pragma once

#include <string>
#include <string_view>

namespace unspool {

// In double quotes, without control characters, and cut where a hostile file made it long.
inline std::string quote_name(std::string_view name) {
  constexpr size_t kMaxBytes = 160;
  std::string out = "\"";
  for (const char c : name.substr(0, kMaxBytes)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (name.size() > kMaxBytes) {
    while (out.size() > 1 && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
    if (static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();  // no half of a UTF-8 character
    out += "...";
  }
  return out + '"';
}

}  // namespace unspool
