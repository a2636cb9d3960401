// Names from files, made fit for one line of a message.
#pragma once

#include <string>
#include <string_view>

namespace unspool {

// Without control characters, and cut where a hostile file made it long. For JSON, which has quotes of its own.
inline std::string fit_line(std::string_view text) {
  constexpr size_t kMaxBytes = 160;
  std::string out;
  for (const char c : text.substr(0, kMaxBytes)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() > kMaxBytes) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();  // no half of a UTF-8 character
    out += "...";
  }
  return out;
}

// The same in double quotes.
inline std::string quote_name(std::string_view name) {
  return '"' + fit_line(name) + '"';
}

}  // namespace unspool
