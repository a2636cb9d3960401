#include "chat/python_json.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <utility>

#include "jinja/json_text.h"
#include "json/syntax_error.h"
#include "unicode/utf8.h"

namespace unspool::chat {
namespace {

using Kind = PythonJson::Kind;

// sys.int_info.default_max_str_digits.
constexpr size_t kMaxIntegerDigits = 4300;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  bool at_end() const { return at_ == text_.size(); }
  void skip_space() {
    while (!at_end() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool value(PythonJson& out) {
    if (at_end()) return false;
    switch (text_[at_]) {
      case '"':
        out.kind = Kind::kString;
        return string(out.text);
      case '[':
        return array(out);
      case '{':
        return object(out);
      default:
        return word("null", Kind::kNull, out) || word("true", Kind::kTrue, out) || word("false", Kind::kFalse, out) ||
               word("NaN", Kind::kFloat, out) || word("Infinity", Kind::kFloat, out) ||
               word("-Infinity", Kind::kFloat, out) || number(out);
    }
  }

 private:
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool word(std::string_view word, Kind kind, PythonJson& out) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    out.kind = kind;
    if (kind == Kind::kFloat) out.text = word;
    return true;
  }

  void digits() {
    while (!at_end() && is_digit(text_[at_])) ++at_;
  }
  bool digit_at(size_t i) const { return i < text_.size() && is_digit(text_[i]); }

  bool number(PythonJson& out) {
    const size_t begin = at_;
    take('-');
    if (!digit_at(at_)) return false;
    if (!take('0')) digits();
    // A fraction or an exponent without digits is what follows the number, not part of it.
    if (!at_end() && text_[at_] == '.' && digit_at(at_ + 1)) {
      ++at_;
      digits();
    }
    if (!at_end() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      const size_t sign = at_ + 1 < text_.size() && (text_[at_ + 1] == '+' || text_[at_ + 1] == '-') ? 1 : 0;
      if (digit_at(at_ + 1 + sign)) {
        at_ += 1 + sign;
        digits();
      }
    }
    auto number = read_number(text_.substr(begin, at_ - begin));
    if (!number) return false;
    out = std::move(*number);
    return true;
  }

  bool string(std::string& out) {
    ++at_;
    while (!at_end()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) return false;
      ++at_;
      if (c != '\\') {
        out += c;
      } else if (!escape(out)) {
        return false;
      }
    }
    return false;
  }

  bool escape(std::string& out) {
    if (at_end()) return false;
    const char c = text_[at_++];
    if (c == 'u') return code_point(out);
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    const size_t which = kLetters.find(c);
    if (which == std::string_view::npos) return false;
    out += "\"\\/\b\f\n\r\t"[which];
    return true;
  }

  std::optional<char32_t> hex4(size_t begin) const {
    if (begin + 4 > text_.size()) return std::nullopt;
    char32_t code = 0;
    for (size_t i = begin; i < begin + 4; ++i) {
      const char c = text_[i];
      const char lower = static_cast<char>(c | 0x20);
      if (is_digit(c)) {
        code = code * 16 + static_cast<char32_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        code = code * 16 + static_cast<char32_t>(lower - 'a' + 10);
      } else {
        return std::nullopt;
      }
    }
    return code;
  }

  bool code_point(std::string& out) {
    const auto code = hex4(at_);
    if (!code) return false;
    at_ += 4;
    if (*code >= 0xD800 && *code < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      const auto low = hex4(at_ + 2);
      if (!low) return false;
      if (*low >= 0xDC00 && *low <= 0xDFFF) {
        at_ += 6;
        unicode::append(out, 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00));
        return true;
      }
    }
    append_code_unit(out, *code);
    return true;
  }

  bool array(PythonJson& out) {
    out.kind = Kind::kArray;
    if (++depth_ > kMaxJsonDepth) return false;
    ++at_;
    skip_space();
    if (!take(']')) {
      do {
        skip_space();
        if (!value(out.items.emplace_back())) return false;
        skip_space();
      } while (take(','));
      if (!take(']')) return false;
    }
    --depth_;
    return true;
  }

  bool object(PythonJson& out) {
    out.kind = Kind::kObject;
    if (++depth_ > kMaxJsonDepth) return false;
    ++at_;
    skip_space();
    // Ordered, since hashes of what a model was told to write can be made to collide.
    std::map<std::string, size_t, std::less<>> positions;
    if (!take('}')) {
      do {
        skip_space();
        std::string key;
        if (at_end() || text_[at_] != '"' || !string(key)) return false;
        skip_space();
        if (!take(':')) return false;
        skip_space();
        PythonJson member;
        if (!value(member)) return false;
        const auto [position, is_new] = positions.emplace(key, out.keys.size());
        if (is_new) {
          out.keys.push_back(std::move(key));
          out.items.push_back(std::move(member));
        } else {
          out.items[position->second] = std::move(member);
        }
        skip_space();
      } while (take(','));
      if (!take('}')) return false;
    }
    --depth_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t depth_ = 0;
};

void append_string(std::string& out, std::string_view utf8) {
  out += '"';
  append_json_characters(out, utf8);
  out += '"';
}

// Recursion is bounded by kMaxJsonDepth, which reading enforced.
void append_value(std::string& out, const PythonJson& value) {
  switch (value.kind) {
    case Kind::kNull:
      out += "null";
      return;
    case Kind::kFalse:
      out += "false";
      return;
    case Kind::kTrue:
      out += "true";
      return;
    case Kind::kInteger:
    case Kind::kFloat:
      out += value.text;
      return;
    case Kind::kString:
      return append_string(out, value.text);
    case Kind::kArray:
    case Kind::kObject:
      break;
  }
  out += value.is_object() ? '{' : '[';
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) out += ", ";
    if (value.is_object()) {
      append_string(out, value.keys[i]);
      out += ": ";
    }
    append_value(out, value.items[i]);
  }
  out += value.is_object() ? '}' : ']';
}

}  // namespace

const PythonJson* PythonJson::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

std::optional<PythonJson> parse_python_json(std::string_view text) {
  Reader reader(text);
  reader.skip_space();
  PythonJson value;
  if (!reader.value(value)) return std::nullopt;
  reader.skip_space();
  if (!reader.at_end()) return std::nullopt;
  return value;
}

std::optional<DecodedJson> decode_python_json(std::string_view text) {
  Reader reader(text);
  DecodedJson decoded;
  if (!reader.value(decoded.value)) return std::nullopt;
  decoded.size = reader.at();
  return decoded;
}

std::string dump_python_json(const PythonJson& value) {
  std::string out;
  append_value(out, value);
  return out;
}

void append_json_characters(std::string& out, std::string_view utf8) {
  for (size_t at = 0; at < utf8.size(); ++at) {
    const char c = utf8[at];
    const auto byte = static_cast<unsigned char>(c);
    if (const std::string escape = byte < 0x80 ? jinja::json_escape(byte, false) : ""; !escape.empty()) {
      out += escape;
    } else if (byte == 0xED && at + 2 < utf8.size() && static_cast<unsigned char>(utf8[at + 1]) >= 0xA0) {
      out += fmt::format("\\u{:04x}", 0xD000u | (static_cast<unsigned char>(utf8[at + 1]) & 0x3Fu) << 6 |
                                          (static_cast<unsigned char>(utf8[at + 2]) & 0x3Fu));
      at += 2;
    } else {
      out += c;
    }
  }
}

void append_code_unit(std::string& out, char32_t code_point) {
  if (code_point < 0xD800 || code_point > 0xDFFF) return unicode::append(out, code_point);
  out += static_cast<char>(0xE0 | (code_point >> 12));
  out += static_cast<char>(0x80 | ((code_point >> 6) & 0x3F));
  out += static_cast<char>(0x80 | (code_point & 0x3F));
}

std::optional<PythonJson> read_number(std::string_view token) {
  if (token.find_first_of(".eE") == std::string_view::npos) {
    const size_t digits = token.size() - (token.starts_with('-') ? 1 : 0);
    if (digits > kMaxIntegerDigits) return std::nullopt;
    return PythonJson::integer(std::string(token == "-0" ? "0" : token));
  }
  // strtod, since from_chars gives no value beyond a double's range, where Python has infinities and zeros.
  return PythonJson{Kind::kFloat, jinja::json_number(std::strtod(std::string(token).c_str(), nullptr)), {}, {}};
}

}  // namespace unspool::chat
