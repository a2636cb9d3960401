// JSON out: appends compact JSON (no spaces, raw UTF-8) to a string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace unspool {

// Usage: w.begin_object(); w.key("id"); w.string(id); w.key("n"); w.integer(1); w.end_object(); std::move(w).str().
// Commas are placed by the writer. Floats are written with the shortest digits that give the same double
// (std::to_chars), always with a '.', 'e' or as an integer-valued "1.0" as Python's json does. A non-finite float is
// our fault: a check. Invalid UTF-8 in a string is written as U+FFFD.
class JsonWriter {
 public:
  void begin_object();
  void end_object();
  void begin_array();
  void end_array();
  void key(std::string_view name);
  void string(std::string_view utf8);
  void integer(int64_t value);
  void number(double value);
  void number(float value);  // shortest digits of the double that equals the float, so that a client's float64 is exact
  void boolean(bool value);
  void null();
  void raw(std::string_view json);  // a whole value, already JSON

  const std::string& str() const& { return out_; }
  std::string str() && { return std::move(out_); }

 private:
  void separate();
  std::string out_;
  bool need_comma_ = false;
};

}  // namespace unspool
