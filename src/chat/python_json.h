// JSON as Python's json module reads and writes it, which is what the arguments of a tool call go through. It differs
// from json.h: NaN, infinities, lone surrogates and integers of any size pass, and the order of members is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unspool::chat {

struct PythonJson {
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kInteger, kFloat, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  std::string text;  // of a number, as Python prints it; of a string, UTF-8 (a lone surrogate: its three bytes)
  std::vector<PythonJson> items;  // of an array; of an object, the members' values
  std::vector<std::string> keys;  // of an object: those of `items`

  static PythonJson string(std::string utf8) { return {Kind::kString, std::move(utf8), {}, {}}; }
  static PythonJson boolean(bool value) { return {value ? Kind::kTrue : Kind::kFalse, {}, {}, {}}; }
  static PythonJson integer(std::string digits) { return {Kind::kInteger, std::move(digits), {}, {}}; }

  bool is_string() const { return kind == Kind::kString; }
  bool is_object() const { return kind == Kind::kObject; }
  bool is_array() const { return kind == Kind::kArray; }
  // An object's member; null where there is none, or for anything else.
  const PythonJson* find(std::string_view key) const;

  bool operator==(const PythonJson&) const = default;
};

// json.loads; nullopt where it raises, and for what is nested deeper than json.h takes.
std::optional<PythonJson> parse_python_json(std::string_view text);

// JSONDecoder.raw_decode: the value that begins at the first byte, and where it ends.
struct DecodedJson {
  PythonJson value;
  size_t size = 0;
};
std::optional<DecodedJson> decode_python_json(std::string_view text);

// json.dumps(value, ensure_ascii=False). A lone surrogate, of which there is no UTF-8, is written as its escape.
std::string dump_python_json(const PythonJson& value);
// The same of a string's characters alone, without quotes.
void append_json_characters(std::string& out, std::string_view utf8);

// Appends a character; surrogates become three bytes, which no UTF-8 has, so that they come out as they went in.
void append_code_unit(std::string& out, char32_t code_point);

// A number in JSON's grammar as Python prints it: integers stay exact, floats get their shortest form. nullopt for an
// integer that Python refuses to read (more than 4300 digits).
std::optional<PythonJson> read_number(std::string_view token);

}  // namespace unspool::chat
