// Typed values out of flags, each checked in words that name the flag.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "json/json.h"
#include "protocol/python_text.h"
#include "server/flag_parser.h"

namespace unspool {

// Reads typed values; the first error stays.
class OptionReader {
 public:
  explicit OptionReader(const FlagValues& values) : values_(values) {}

  template <class T>
  void integer(std::string_view name, T& out, int64_t least, int64_t most) {
    if (!values_.has(name)) return;
    const std::string text = values_.text(name);
    const auto value = parse_size(name, text);
    if (!value.ok()) {
      fail(value.error().message);
    } else if (*value < least || *value > most) {
      fail(fmt::format("--{} must be {}, not {}", name, range(least, most), text));
    } else {
      out = static_cast<T>(*value);
    }
  }

  void number(std::string_view name, double& out) {
    if (!values_.has(name)) return;
    const auto value = python::parse_float(values_.text(name));
    if (!value || !(*value >= 0)) {
      fail(fmt::format("--{} must be a number of 0 or more, not '{}'", name, values_.text(name)));
    } else {
      out = *value;
    }
  }

  void flag(std::string_view name, bool& out) { out = values_.enabled(name, out); }
  void text(std::string_view name, std::string& out) { out = values_.text(name, out); }

  // One of a few words; returns its place.
  size_t choice(std::string_view name, const std::vector<std::string_view>& words, size_t fallback) {
    if (!values_.has(name)) return fallback;
    const auto at = std::find(words.begin(), words.end(), values_.text(name));
    if (at != words.end()) return static_cast<size_t>(at - words.begin());
    fail(fmt::format("--{} must be one of {}, not '{}'", name, fmt::join(words, ", "), values_.text(name)));
    return fallback;
  }

  void object(std::string_view name, std::string& out) {
    text(name, out);
    const auto document = JsonDocument::parse(out);
    if (!document.ok() || !document->root().is_object())
      fail(fmt::format("--{} must be a JSON object, not '{}'", name, out));
  }

  void fail(std::string message) {
    if (error_.ok()) error_ = invalid_argument(std::move(message));
  }
  const Status& error() const { return error_; }

 private:
  static std::string range(int64_t least, int64_t most) {
    return most == std::numeric_limits<int64_t>::max() || most == std::numeric_limits<int>::max()
               ? fmt::format("{} or more", least)
               : fmt::format("from {} to {}", least, most);
  }

  const FlagValues& values_;
  Status error_;
};

}  // namespace unspool
