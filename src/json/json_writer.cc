#include "json/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"

namespace unspool {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

void append_escape(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      constexpr std::string_view kHex = "0123456789abcdef";
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
  }
}

}  // namespace

void JsonWriter::separate() {
  if (need_comma_) out_ += ',';
  need_comma_ = true;
}

void JsonWriter::begin_object() {
  separate();
  out_ += '{';
  need_comma_ = false;
}

void JsonWriter::end_object() {
  out_ += '}';
  need_comma_ = true;
}

void JsonWriter::begin_array() {
  separate();
  out_ += '[';
  need_comma_ = false;
}

void JsonWriter::end_array() {
  out_ += ']';
  need_comma_ = true;
}

void JsonWriter::key(std::string_view name) {
  string(name);
  out_ += ':';
  need_comma_ = false;
}

void JsonWriter::string(std::string_view utf8) {
  separate();
  out_ += '"';
  size_t copied = 0;  // everything before is in out_
  size_t i = 0;
  const auto flush = [&] { out_.append(utf8, copied, i - copied); };
  while (i < utf8.size()) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    if (c < 0x80 && c >= 0x20 && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    if (c >= 0x80) {
      const size_t length = utf8_sequence_length(utf8.substr(i, 4));
      if (length != 0) {
        i += length;
        continue;
      }
      flush();
      out_ += kReplacement;
    } else {
      flush();
      append_escape(out_, c);
    }
    copied = ++i;
  }
  flush();
  out_ += '"';
}

void JsonWriter::integer(int64_t value) {
  separate();
  std::array<char, 24> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out_.append(digits.data(), result.ptr);
}

void JsonWriter::number(double value) {
  UNSPOOL_CHECK(std::isfinite(value), "a number for JSON, got {}", value);
  separate();
  std::array<char, 32> digits;  // the shortest form of a double has at most 24 characters
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  const std::string_view text(digits.data(), static_cast<size_t>(result.ptr - digits.data()));
  out_ += text;
  // Python tells 1 from 1.0 when it reads, so a float must look like one.
  if (text.find_first_of(".e") == std::string_view::npos) out_ += ".0";
}

void JsonWriter::number(float value) {
  number(static_cast<double>(value));
}

void JsonWriter::boolean(bool value) {
  raw(value ? "true" : "false");
}

void JsonWriter::null() {
  raw("null");
}

void JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
}

}  // namespace unspool
