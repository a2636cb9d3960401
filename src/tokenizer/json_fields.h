// Fields of tokenizer.json, read with errors that name what was expected and what came.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/json.h"

namespace unspool {

// An error about `part` of tokenizer.json, such as "pre_tokenizer Split".
Error tokenizer_error(std::string_view part, std::string_view what);
// "<part>: expected <expected>, got <value>", the value cut short where it is long.
Error expected_error(std::string_view part, std::string_view expected, const JsonValue& value);

// A missing or null field is an error unless there is a default.
Result<bool> bool_field(std::string_view part, const JsonValue& object, std::string_view name,
                        std::optional<bool> default_value = std::nullopt);
Result<std::string> string_field(std::string_view part, const JsonValue& object, std::string_view name);
// A text that is put into others, which is refused where it is long: no file needs that, and texts could grow without
// end.
Result<std::string> inserted_field(std::string_view part, const JsonValue& object, std::string_view name);
// How far the parts of a pipeline may let a text of `size_bytes` grow before the rest of them is left out: far beyond
// what any real one does, and short of all memory for a file that was made to take it.
constexpr size_t grown_size_limit(size_t size_bytes) {
  return 4096 + 64 * size_bytes;
}
Result<char32_t> character_field(std::string_view part, const JsonValue& object, std::string_view name);
Result<int32_t> id_field(std::string_view part, const JsonValue& object, std::string_view name);
// The id that `value` is: an integer from 0 to 2^31 - 1.
Result<int32_t> token_id(std::string_view part, const JsonValue& value);
// The "type" of a part that is an object.
Result<std::string> type_field(std::string_view part, const JsonValue& object);

}  // namespace unspool
