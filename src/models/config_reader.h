// Typed, range-checked fields of a JSON object. Every error names the field, what was expected and what is there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"

namespace unspool {

// Null counts as absent, as it does in Python's configs. A field of the overrides replaces the file's field of that
// name whole.
class ConfigReader {
 public:
  // `prefix` stands before field names in errors ("rope_scaling."). The values must outlive the reader.
  ConfigReader(std::string file_name, const JsonValue& object, const JsonValue* overrides = nullptr,
               std::string prefix = {});
  // The members of an object within this one.
  ConfigReader nested(std::string_view key, const JsonValue& object) const;

  std::optional<JsonValue> find(std::string_view key) const;  // nullopt where absent or null
  bool has(std::string_view key) const;                       // also where null
  bool is_overridden(std::string_view key) const;

  Result<std::optional<int64_t>> integer(std::string_view key, int64_t min, int64_t max) const;
  Result<int64_t> required_integer(std::string_view key, int64_t min, int64_t max) const;
  // min <= value <= max, or min < value with `above_min`.
  Result<std::optional<double>> number(std::string_view key, double min, double max, bool above_min = false) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  // Keeps the target's value where the field is absent.
  Status flag(std::string_view key, bool& target) const;
  Result<std::optional<std::string>> string(std::string_view key) const;
  // One id or a list of ids. -1 means none. An id of vocab_size or more can never come up: it is left out, with a
  // warning.
  Result<std::vector<int64_t>> token_ids(std::string_view key, int64_t vocab_size) const;
  // The first of token_ids, if any.
  Result<std::optional<int64_t>> token_id(std::string_view key, int64_t vocab_size) const;

  // "config.json: rope_scaling.factor: expected ..., got ...".
  Error expected(std::string_view key, std::string_view what, const JsonValue& got) const;
  // "config.json: `message`".
  Error error(std::string_view message) const;

 private:
  std::string file_name_;
  JsonValue object_;
  JsonValue overrides_;  // null where there are none
  std::string prefix_;
};

}  // namespace unspool
