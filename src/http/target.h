// Request targets: percent-decoding, paths and queries.
#pragma once

#include <string>
#include <string_view>

namespace unspool::http {

// Decodes %XX; what is no valid escape stays as it is, as Python's unquote does.
std::string percent_decode(std::string_view text);

struct Target {
  std::string path;   // decoded, without a trailing slash
  std::string query;  // raw, without '?'
};

// Splits a target in origin form ("/a?b") or absolute form ("http://host/a?b").
Target split_target(std::string_view target);

// "/a/" and "/a" are one route; "/" stays.
std::string without_trailing_slash(std::string path);

}  // namespace unspool::http
