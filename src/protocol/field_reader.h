// Reads the fields of a JSON object as the reference's pydantic models do: lax coercion ("5" is 5), every error
// collected, each worded as pydantic words it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/json.h"
#include "protocol/api_error.h"

namespace unspool {

struct FieldError {
  std::string type;  // "int_parsing"
  std::string loc;   // "body.n"
  std::string msg;
  std::string input;  // as shown, see describe_input
  std::string ctx;    // a Python dict, or empty
};

class FieldErrors {
 public:
  void add(FieldError error);
  void append(const FieldErrors& other);
  bool empty() const { return count_ == 0; }
  ApiError to_api_error() const;

 private:
  std::vector<FieldError> kept_;  // the first ten: a hostile body must not grow the reply
  size_t count_ = 0;
};

// str() of the value; containers by size ("<list of 3 items>"), long texts cut.
std::string describe_input(const JsonValue& value);

struct IntRange {
  int64_t ge = std::numeric_limits<int64_t>::min();
  int64_t le = std::numeric_limits<int64_t>::max();
};

// One value, or nullopt after adding to `errors`.
std::optional<int64_t> coerce_int(const JsonValue& value, const std::string& loc, FieldErrors& errors,
                                  IntRange range = {});
std::optional<double> coerce_number(const JsonValue& value, const std::string& loc, FieldErrors& errors);
std::optional<bool> coerce_bool(const JsonValue& value, const std::string& loc, FieldErrors& errors);
std::optional<std::string> coerce_string(const JsonValue& value, const std::string& loc, FieldErrors& errors);
std::optional<std::vector<int64_t>> coerce_int_list(const JsonValue& value, const std::string& loc, FieldErrors& errors,
                                                    IntRange range = {});
std::optional<std::vector<std::string>> coerce_string_list(const JsonValue& value, const std::string& loc,
                                                           FieldErrors& errors);

// bool(value) in Python.
bool truthy(const JsonValue& value);

// The fields of one object. A target stays as it is where the field is absent; an optional one becomes empty on null,
// any other target refuses null.
class FieldReader {
 public:
  FieldReader(JsonValue object, std::string loc, FieldErrors& errors);

  void read(std::string_view name, int64_t& out, IntRange range = {});
  void read(std::string_view name, std::optional<int64_t>& out, IntRange range = {});
  void read(std::string_view name, double& out);
  void read(std::string_view name, std::optional<double>& out);
  void read(std::string_view name, bool& out);
  void read(std::string_view name, std::optional<bool>& out);
  void read(std::string_view name, std::string& out);
  void read(std::string_view name, std::optional<std::string>& out);
  void read(std::string_view name, std::optional<std::vector<int64_t>>& out, IntRange range = {});
  void read(std::string_view name, std::vector<std::string>& out);
  void read(std::string_view name, std::optional<std::vector<std::string>>& out);
  // An object or null.
  void read_object(std::string_view name, std::optional<JsonValue>& out);

  std::optional<JsonValue> find(std::string_view name) const { return object_.find(name); }
  JsonValue object() const { return object_; }
  std::string loc(std::string_view name) const { return loc_ + "." + std::string(name); }
  FieldErrors& errors() { return errors_; }
  void missing(std::string_view name);

 private:
  template <class T, class Coerce>
  void read_optional(std::string_view name, std::optional<T>& out, Coerce coerce);
  template <class T, class Coerce>
  void read_required(std::string_view name, T& out, Coerce coerce);

  JsonValue object_;
  std::string loc_;
  FieldErrors& errors_;
};

}  // namespace unspool
