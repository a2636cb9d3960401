#include "models/config_reader.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"

namespace unspool {
namespace {

constexpr int64_t kMaxTokenIds = 4096;

// The value as JSON, cut to what fits a line.
std::string shown(const JsonValue& value) {
  constexpr size_t kMaxBytes = 80;
  std::string text = value.dump();
  if (text.size() <= kMaxBytes) return text;
  text.resize(kMaxBytes);
  while (!text.empty() && static_cast<unsigned char>(text.back()) >= 0x80) text.pop_back();  // no half of a character
  return text + "...";
}

}  // namespace

ConfigReader::ConfigReader(std::string file_name, const JsonValue& object, const JsonValue* overrides,
                           std::string prefix)
    : file_name_(std::move(file_name)), object_(object), prefix_(std::move(prefix)) {
  if (overrides != nullptr) overrides_ = *overrides;
}

ConfigReader ConfigReader::nested(std::string_view key, const JsonValue& object) const {
  return ConfigReader(file_name_, object, nullptr, fmt::format("{}{}.", prefix_, key));
}

std::optional<JsonValue> ConfigReader::find(std::string_view key) const {
  const std::optional<JsonValue> value = is_overridden(key) ? overrides_.find(key) : object_.find(key);
  if (!value || value->is_null()) return std::nullopt;
  return value;
}

bool ConfigReader::has(std::string_view key) const {
  return is_overridden(key) || object_.find(key).has_value();
}

bool ConfigReader::is_overridden(std::string_view key) const {
  return overrides_.find(key).has_value();
}

Result<std::optional<int64_t>> ConfigReader::integer(std::string_view key, int64_t min, int64_t max) const {
  const std::optional<JsonValue> value = find(key);
  if (!value) return std::optional<int64_t>();
  const std::optional<int64_t> number = value->as_int64();
  if (!number || *number < min || *number > max) {
    return expected(key, fmt::format("an integer from {} to {}", min, max), *value);
  }
  return number;
}

Result<int64_t> ConfigReader::required_integer(std::string_view key, int64_t min, int64_t max) const {
  UNSPOOL_ASSIGN(const std::optional<int64_t> number, integer(key, min, max));
  if (!number) return error(fmt::format("{}{} is missing", prefix_, key));
  return *number;
}

Result<std::optional<double>> ConfigReader::number(std::string_view key, double min, double max, bool above_min) const {
  const std::optional<JsonValue> value = find(key);
  if (!value) return std::optional<double>();
  const std::optional<double> number = value->as_double();
  if (!number || !(above_min ? *number > min : *number >= min) || !(*number <= max)) {
    return expected(key, fmt::format("a number {} {}, at most {}", above_min ? "above" : "of at least", min, max),
                    *value);
  }
  return number;
}

Result<std::optional<bool>> ConfigReader::boolean(std::string_view key) const {
  const std::optional<JsonValue> value = find(key);
  if (!value) return std::optional<bool>();
  const std::optional<bool> flag = value->as_bool();
  if (!flag) return expected(key, "true or false", *value);
  return flag;
}

Status ConfigReader::flag(std::string_view key, bool& target) const {
  UNSPOOL_ASSIGN(const std::optional<bool> value, boolean(key));
  target = value.value_or(target);
  return {};
}

Result<std::optional<std::string>> ConfigReader::string(std::string_view key) const {
  const std::optional<JsonValue> value = find(key);
  if (!value) return std::optional<std::string>();
  const std::optional<std::string_view> text = value->as_string();
  if (!text) return expected(key, "a string", *value);
  return std::optional<std::string>(*text);
}

Result<std::vector<int64_t>> ConfigReader::token_ids(std::string_view key, int64_t vocab_size) const {
  const std::optional<JsonValue> value = find(key);
  if (!value) return std::vector<int64_t>();
  std::vector<JsonValue> elements;
  if (value->is_array()) {
    if (value->size() > kMaxTokenIds) return expected(key, fmt::format("at most {} token ids", kMaxTokenIds), *value);
    elements = value->elements();
  } else {
    elements.push_back(*value);
  }
  std::vector<int64_t> ids;
  for (const JsonValue& element : elements) {
    const std::optional<int64_t> id = element.as_int64();
    if (!id || *id < -1) return expected(key, "a token id or a list of token ids", *value);
    if (*id == -1) continue;
    if (*id >= vocab_size) {
      log_warning("{}: {}{}: {} is outside the vocabulary of {} and is left out", file_name_, prefix_, key, *id,
                  vocab_size);
      continue;
    }
    ids.push_back(*id);
  }
  return ids;
}

Result<std::optional<int64_t>> ConfigReader::token_id(std::string_view key, int64_t vocab_size) const {
  UNSPOOL_ASSIGN(const std::vector<int64_t> ids, token_ids(key, vocab_size));
  return ids.empty() ? std::optional<int64_t>() : std::optional<int64_t>(ids.front());
}

Error ConfigReader::expected(std::string_view key, std::string_view what, const JsonValue& got) const {
  return error(fmt::format("{}{}: expected {}, got {}", prefix_, key, what, shown(got)));
}

Error ConfigReader::error(std::string_view message) const {
  return invalid_argument(fmt::format("{}: {}", file_name_, message));
}

}  // namespace unspool
