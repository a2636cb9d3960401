#include "json/syntax_error.h"

#include <charconv>
#include <optional>
#include <vector>

#include "base/utf8.h"

namespace unspool {
namespace {

constexpr std::string_view kValue = "Expecting value";
constexpr std::string_view kName = "Expecting property name enclosed in double quotes";
constexpr std::string_view kColon = "Expecting ':' delimiter";
constexpr std::string_view kComma = "Expecting ',' delimiter";
constexpr std::string_view kUnicodeEscape = "Invalid \\uXXXX escape";

// Walks the text the way json.decoder's C scanner does and stops at its first complaint; offsets are in bytes. It keeps
// its own stack, so that a hostile nesting costs heap and not the thread's stack.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void run() {
    skip_space();
    if (!value()) return;
    while (!open_.empty()) {
      if (!(open_.back() == '{' ? after_member() : after_element())) return;
    }
    skip_space();
    fail(at_, at_ < text_.size() ? "Extra data" : "Invalid JSON");
  }

  size_t error_offset() const { return error_offset_; }
  std::string_view message() const { return message_; }

 private:
  bool fail(size_t offset, std::string_view message) {
    error_offset_ = offset;
    message_ = message;
    return false;
  }

  // 0 at the end; a NUL in the text is nowhere allowed, so the two need no telling apart.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool is_digit(size_t i) const { return i < text_.size() && text_[i] >= '0' && text_[i] <= '9'; }

  // One scalar, an empty container, or the opening of a container up to where its first value starts and ends.
  bool value() {
    while (true) {
      const char c = peek();
      if (c == '"') return string();
      if (c == '-' || is_digit(at_)) return number();
      if (c != '{' && c != '[') return literal();
      if (open_.size() == kMaxJsonDepth) return fail(at_, "Nesting too deep");
      ++at_;
      skip_space();
      if (peek() == (c == '{' ? '}' : ']')) {
        ++at_;
        return true;
      }
      open_.push_back(c);
      if (c == '{' && !name()) return false;
    }
  }

  bool name() {
    if (peek() != '"') return fail(at_, kName);
    if (!string()) return false;
    skip_space();
    if (peek() != ':') return fail(at_, kColon);
    ++at_;
    skip_space();
    return true;
  }

  bool after_member() {
    if (!comma_or('}')) return false;
    return closed_ || (name() && value());
  }
  bool after_element() {
    if (!comma_or(']')) return false;
    return closed_ || value();
  }

  bool comma_or(char close) {
    skip_space();
    closed_ = peek() == close;
    if (!closed_ && peek() != ',') return fail(at_, kComma);
    ++at_;
    if (closed_) {
      open_.pop_back();
    } else {
      skip_space();
    }
    return true;
  }

  bool literal() {
    for (const std::string_view word : {"null", "true", "false"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return true;
      }
    }
    return fail(at_, kValue);
  }

  bool number() {
    const size_t start = at_;
    size_t end = at_ + (peek() == '-' ? 1 : 0);
    if (!is_digit(end)) return fail(start, kValue);
    if (text_[end] == '0') {
      ++end;
    } else {
      while (is_digit(end)) ++end;
    }
    bool integer = true;
    if (end < text_.size() && text_[end] == '.' && is_digit(end + 1)) {
      integer = false;
      for (++end; is_digit(end);) ++end;
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (is_digit(exponent)) {
        integer = false;
        for (end = exponent; is_digit(end);) ++end;
      }
    }
    at_ = end;
    return representable(text_.substr(start, end - start), integer) || fail(start, "Number out of range");
  }

  static bool representable(std::string_view token, bool integer) {
    const char* first = token.data();
    const char* last = first + token.size();
    double number = 0;
    const auto result = std::from_chars(first, last, number);
    // from_chars calls an underflow out of range too; the parser rounds it to zero, so only large exponents count.
    if (integer) return result.ec == std::errc();  // the parser takes one that is too large for 64 bits as a double
    return result.ec == std::errc() || token.find("e-") != token.npos || token.find("E-") != token.npos ||
           token.find_first_of("eE") == token.npos;
  }

  // The value of four hex digits that start at `i`, or nullopt.
  std::optional<unsigned> hex4(size_t i) const {
    unsigned code = 0;
    // Python wants a character after the digits as well: the string cannot end with them.
    if (i + 4 >= text_.size()) return std::nullopt;
    const auto result = std::from_chars(text_.data() + i, text_.data() + i + 4, code, 16);
    if (result.ptr != text_.data() + i + 4) return std::nullopt;
    return code;
  }

  bool string() {
    const size_t quote = at_++;
    while (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c < 0x20) return fail(at_, "Invalid control character at");
      if (c == '\\' && at_ + 1 < text_.size()) {
        if (!escape()) return false;
      } else {
        ++at_;
      }
    }
    return fail(quote, "Unterminated string starting at");
  }

  bool escape() {
    const size_t letter = at_ + 1;
    if (text_[letter] != 'u') {
      if (std::string_view("\"\\/bfnrt").find(text_[letter]) == std::string_view::npos) {
        return fail(at_, "Invalid \\escape");
      }
      at_ += 2;
      return true;
    }
    const auto code = hex4(letter + 1);
    if (!code) return fail(letter, kUnicodeEscape);
    at_ += 6;
    if (*code < 0xD800 || *code > 0xDFFF) return true;
    // Surrogates come in pairs. Python lets a lone one pass and fails later; there is no UTF-8 for it.
    if (*code < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      const auto low = hex4(at_ + 2);
      if (!low) return fail(at_ + 1, kUnicodeEscape);
      if (*low >= 0xDC00 && *low <= 0xDFFF) {
        at_ += 6;
        return true;
      }
    }
    return fail(letter, kUnicodeEscape);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<char> open_;  // the containers around at_, as their opening brackets
  bool closed_ = false;
  size_t error_offset_ = 0;
  std::string_view message_;
};

}  // namespace

JsonSyntaxError find_json_syntax_error(std::string_view text) {
  // Python decodes the bytes before it looks at them, so broken UTF-8 anywhere comes first.
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++characters) {
    const size_t length = utf8_sequence_length(text.substr(i));
    if (length == 0) return {characters, "Invalid UTF-8"};
    i += length;
  }
  Scanner scanner(text);
  scanner.run();
  size_t position = 0;
  for (size_t i = 0; i < scanner.error_offset(); ++i) position += (text[i] & 0xC0) != 0x80;
  return {position, std::string(scanner.message())};
}

}  // namespace unspool
