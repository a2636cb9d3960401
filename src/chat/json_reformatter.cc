#include "chat/json_reformatter.h"

#include "chat/python_json.h"

namespace unspool::chat {
namespace {

using Place = JsonProgress::Place;

constexpr size_t kUnicodeEscapeSize = 6;

bool is_string(Place place) {
  return place == Place::kString || place == Place::kEscape || place == Place::kHex;
}

// \ud800 to \udbff: the first half of a pair.
bool is_high_surrogate(std::string_view escape) {
  if (escape.size() != kUnicodeEscapeSize || (escape[2] | 0x20) != 'd') return false;
  const char digit = static_cast<char>(escape[3] | 0x20);
  return digit == '8' || digit == '9' || digit == 'a' || digit == 'b';
}

void append_unescaped(std::string& out, std::string_view escapes) {
  const auto text = parse_python_json('"' + std::string(escapes) + '"');
  if (text) append_json_characters(out, text->text);
}

}  // namespace

void JsonReformatter::push(char c, std::string& out) {
  const Place before = json_.place();
  json_.push(c);
  const Place after = json_.place();
  if (json_.failed()) return;
  if (is_string(before)) return push_string(before, c, out);
  if (after == Place::kNumber || after == Place::kWord) {
    token_ += c;
    return;
  }
  if (before == Place::kWord) {
    out += token_ + c;
    token_.clear();
    return;
  }
  flush_number(out);
  push_structure(c, out);
}

void JsonReformatter::flush_number(std::string& out) {
  if (token_.empty()) return;
  if (const auto number = read_number(token_)) out += number->text;
  token_.clear();
}

void JsonReformatter::push_string(Place before, char c, std::string& out) {
  if (before == Place::kString && c != '\\') {
    append_unescaped(out, escape_);
    escape_.clear();
    out += c;
    return;
  }
  escape_ += c;
  if (json_.place() != Place::kString) return;
  // The place is a string's again: an escape is complete.
  const size_t last = escape_.size() > kUnicodeEscapeSize ? kUnicodeEscapeSize : 0;
  if (!is_high_surrogate(std::string_view(escape_).substr(last))) {
    append_unescaped(out, escape_);
    escape_.clear();
  } else if (last > 0) {
    append_unescaped(out, escape_.substr(0, last));
    escape_.erase(0, last);
  }
}

void JsonReformatter::push_structure(char c, std::string& out) {
  switch (c) {
    case ',':
      out += ", ";
      return;
    case ':':
      out += ": ";
      return;
    case ' ':
    case '\t':
    case '\n':
    case '\r':
      return;
    default:
      out += c;
  }
}

}  // namespace unspool::chat
