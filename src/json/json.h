// JSON in: one owning document over simdjson's DOM, and views into it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace unspool {

// Where parsing failed, in the terms of Python's json module (what clients of the reference see).
struct JsonSyntaxError {
  size_t position = 0;  // in characters (code points) from the start of the text
  std::string message;  // e.g. "Expecting value", "Expecting property name enclosed in double quotes"
};

enum class JsonType { kNull, kBool, kInteger, kUnsigned, kDouble, kString, kArray, kObject };

// A view of one value; valid while its JsonDocument lives. Cheap to copy.
class JsonValue {
 public:
  JsonValue();  // null
  JsonType type() const;
  bool is_null() const { return type() == JsonType::kNull; }
  bool is_bool() const { return type() == JsonType::kBool; }
  bool is_integer() const { return type() == JsonType::kInteger || type() == JsonType::kUnsigned; }
  bool is_number() const { return is_integer() || type() == JsonType::kDouble; }
  bool is_string() const { return type() == JsonType::kString; }
  bool is_array() const { return type() == JsonType::kArray; }
  bool is_object() const { return type() == JsonType::kObject; }

  // Typed access: nullopt where the value is of another type or out of range. No coercion (that is protocol's affair);
  // as_double takes any number.
  std::optional<bool> as_bool() const;
  std::optional<int64_t> as_int64() const;
  std::optional<double> as_double() const;
  std::optional<std::string_view> as_string() const;  // UTF-8

  size_t size() const;                                                  // of an array or object, else 0
  std::vector<JsonValue> elements() const;                              // of an array, else empty
  std::vector<std::pair<std::string_view, JsonValue>> members() const;  // of an object in file order, else empty
  std::optional<JsonValue> find(
      std::string_view key) const;  // the last member of that name; nullopt where absent or not an object
  JsonValue operator[](std::string_view key) const;  // find, or null where absent
  // The integers of an array of integers, quickly (long prompts); nullopt where any element is not an int64.
  std::optional<std::vector<int64_t>> as_int64_array() const;
  std::string dump() const;  // compact JSON of the value

 private:
  friend class JsonDocument;
  static JsonValue view(const void* element);
  struct Raw {
    alignas(8) unsigned char bytes[16];
  };  // a simdjson::dom::element, kept out of this header
  Raw raw_{};
  bool has_ = false;
};

class JsonDocument {
 public:
  // `syntax_error`, if given, receives the position and text of a failure as Python's json would name them.
  // Errors: kInvalidArgument with a message that names position and reason. Depth is limited (1024).
  static Result<JsonDocument> parse(std::string_view text, JsonSyntaxError* syntax_error = nullptr);
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();
  JsonValue root() const;

 private:
  JsonDocument();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unspool
