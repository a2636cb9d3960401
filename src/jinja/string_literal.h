// The inside of a quoted string of a template.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace unspool::jinja {

// \r\n and \r as \n.
std::string normalize_newlines(std::string_view text);

// Python's unicode-escape as jinja2 applies it; nullopt and the reason where Python refuses.
std::optional<std::string> unescape(std::string_view text, std::string& error);

}  // namespace unspool::jinja
