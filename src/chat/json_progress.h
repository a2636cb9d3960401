// How far a text that comes piece by piece has got in JSON's grammar, as Python's json reads it: without its values,
// and with one step of bounded work for each byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace unspool::chat {

class JsonProgress {
 public:
  // Where the text stands after what was read.
  enum class Place : uint8_t {
    kValue,         // before a value
    kFirstElement,  // after '['
    kFirstKey,      // after '{'
    kKey,           // before a key, after a comma
    kColon,         // after a key
    kString,        // in a string, key or value
    kEscape,        // after a backslash
    kHex,           // in the digits of \u
    kNumber,
    kWord,        // in null, NaN and the like
    kAfterValue,  // in a container
    kEnd,         // after the whole value: only spaces may follow
    kFailed,      // no JSON begins like this, or it is nested too deep
  };

  void push(char c);

  Place place() const { return place_; }
  bool failed() const { return place_ == Place::kFailed; }
  // The text is JSON as it is. A number may still go on.
  bool complete() const {
    return place_ == Place::kEnd || (place_ == Place::kNumber && open_.empty() && number_ends());
  }
  size_t depth() const { return open_.size(); }

 private:
  // How far a number has got.
  enum class Digits : uint8_t { kMinus, kZero, kInteger, kPoint, kFraction, kExponent, kExponentSign, kExponentDigits };

  bool number_ends() const {
    return digits_ == Digits::kZero || digits_ == Digits::kInteger || digits_ == Digits::kFraction ||
           digits_ == Digits::kExponentDigits;
  }
  void begin_value(char c);
  void begin_word(std::string_view word);
  void open(char c);
  void end_value();
  void push_string(char c);
  void push_number(char c);
  void push_word(char c);
  void push_after_value(char c);

  Place place_ = Place::kValue;
  Digits digits_ = Digits::kZero;
  bool in_key_ = false;
  uint8_t hex_left_ = 0;
  std::string_view word_;   // what is left of it
  std::vector<bool> open_;  // the containers around: true for objects
};

}  // namespace unspool::chat
