#include "transfer/info_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "weights/quote.h"

namespace unspool {

InfoReader::InfoReader(JsonValue object, std::string root) : object_(object), root_(std::move(root)) {}

void InfoReader::fail(std::string_view key, std::string message) {
  if (!error_.ok()) return;
  std::string at = fmt::format("{}.{}", root_, key);
  error_ = invalid_argument(fmt::format("{}: {}", at, message), at);
}

void InfoReader::expected(std::string_view key, std::string_view what, const JsonValue& got) {
  fail(key, fmt::format("expected {}, got {}", what, fit_line(got.dump())));
}

void InfoReader::missing(std::string_view key) {
  fail(key, "expected it, but it is missing");
}

std::optional<JsonValue> InfoReader::find(std::string_view key) {
  known_.emplace(key);
  const auto value = object_.find(key);
  return value && !value->is_null() ? value : std::nullopt;
}

void InfoReader::read(std::string_view key, std::optional<bool>& out) {
  const auto value = find(key);
  if (!value) return;
  out = value->as_bool();
  if (!out) expected(key, "true or false", *value);
}

void InfoReader::read(std::string_view key, std::optional<int64_t>& out, int64_t least, int64_t most) {
  const auto value = find(key);
  if (!value) return;
  out = value->as_int64();
  if (out && *out >= least && *out <= most) return;
  const bool open = most == std::numeric_limits<int64_t>::max();
  expected(key,
           open ? fmt::format("an integer of {} or more", least) : fmt::format("an integer from {} to {}", least, most),
           *value);
}

void InfoReader::read(std::string_view key, std::optional<std::string>& out) {
  const auto value = find(key);
  if (!value) return;
  if (const auto text = value->as_string()) {
    out = *text;
  } else {
    expected(key, "a string", *value);
  }
}

void InfoReader::read(std::string_view key, std::optional<std::vector<std::string>>& out) {
  const auto value = find(key);
  if (!value) return;
  if (!value->is_array()) return expected(key, "a list of strings", *value);
  out.emplace();
  for (const JsonValue& element : value->elements()) {
    const auto text = element.as_string();
    if (!text) return expected(key, "a list of strings", element);
    out->emplace_back(*text);
  }
}

std::optional<std::vector<int64_t>> InfoReader::integers(std::string_view key, const JsonValue& value) {
  auto numbers = value.as_int64_array();
  const auto negative = [](int64_t number) { return number < 0; };
  if (numbers && std::none_of(numbers->begin(), numbers->end(), negative)) return numbers;
  expected(key, "a list of integers of 0 or more", value);
  return std::nullopt;
}

void InfoReader::read(std::string_view key, std::optional<std::vector<int64_t>>& out) {
  if (const auto value = find(key)) out = integers(key, *value);
}

void InfoReader::read(std::string_view key, std::optional<std::vector<std::vector<int64_t>>>& out) {
  const auto value = find(key);
  if (!value) return;
  if (!value->is_array()) return expected(key, "a list of lists of integers", *value);
  out.emplace();
  for (const JsonValue& element : value->elements()) {
    auto numbers = integers(key, element);
    if (!numbers) return;
    out->push_back(std::move(*numbers));
  }
}

Status InfoReader::finish() {
  for (const auto& [key, value] : object_.members()) {
    if (known_.contains(key)) continue;
    // First of all: the values of the others may be wrong because this key was meant for another backend.
    const std::string at = root_ + "." + std::string(key.substr(0, 64));
    return invalid_argument(
        fmt::format("{}: unknown key {}; expected some of {}", root_, quote_name(key), fmt::join(known_, ", ")), at);
  }
  return error_;
}

}  // namespace unspool
