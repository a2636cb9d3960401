#include "jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "jinja/characters.h"
#include "jinja/string_literal.h"
#include "jinja/template_error.h"
#include "unicode/categories.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

struct Operator {
  std::string_view text;
  TokenType type;
};
// Longer ones first, so that the first that fits is the longest.
constexpr std::array<Operator, 26> kOperators = {{
    {"//", TokenType::kFloorDivide}, {"**", TokenType::kPower},        {"==", TokenType::kEqual},
    {"!=", TokenType::kNotEqual},    {">=", TokenType::kGreaterEqual}, {"<=", TokenType::kLessEqual},
    {"+", TokenType::kAdd},          {"-", TokenType::kSubtract},      {"/", TokenType::kDivide},
    {"*", TokenType::kMultiply},     {"%", TokenType::kModulo},        {"~", TokenType::kTilde},
    {"[", TokenType::kLeftBracket},  {"]", TokenType::kRightBracket},  {"(", TokenType::kLeftParen},
    {")", TokenType::kRightParen},   {"{", TokenType::kLeftBrace},     {"}", TokenType::kRightBrace},
    {">", TokenType::kGreater},      {"<", TokenType::kLess},          {"=", TokenType::kAssign},
    {".", TokenType::kDot},          {":", TokenType::kColon},         {"|", TokenType::kPipe},
    {",", TokenType::kComma},        {";", TokenType::kSemicolon},
}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Newlines as \n alone, without one at the end.
std::string normalize_source(std::string_view source) {
  std::string out = normalize_newlines(source);
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_source(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_root();
    add(TokenType::kEnd, line_);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool starts(std::string_view text) const { return rest().starts_with(text); }
  [[noreturn]] void fail_here(std::string message) const {
    fail(TemplateError::Kind::kSyntax, std::move(message), line_);
  }

  void add(TokenType type, int line, std::string text = {}) { tokens_.push_back({type, line, std::move(text), {}}); }

  void advance(size_t count) {
    const std::string_view passed = rest().substr(0, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) at_line_start_ = passed.back() == '\n';
    at_ += count;
  }
  void skip_space() { advance(leading_space(rest())); }

  // The data before a tag at `tag`, without the space that the tag takes away: all of it where the tag has a minus, the
  // indentation of the tag's line where lstrip_blocks applies.
  void add_data_before(size_t tag, char sign, bool is_variable) {
    std::string_view data = rest().substr(0, tag);
    if (sign == '-') {
      data = data.substr(0, data.size() - trailing_space(data));
    } else if (sign != '+' && !is_variable) {
      const size_t newline = data.rfind('\n');
      const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      const std::string_view indentation = data.substr(line_start);
      const bool from_line_start = line_start > 0 || at_line_start_;
      if (from_line_start && !indentation.empty() && leading_space(indentation) == indentation.size()) {
        data = data.substr(0, line_start);
      }
    }
    if (!data.empty()) add(TokenType::kData, line_, std::string(data));
    advance(tag);
  }

  char sign_after(size_t offset) const {
    const char c = offset < rest().size() ? rest()[offset] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  void lex_root() {
    size_t tag = 0;
    for (;; ++tag) {
      tag = rest().find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= rest().size()) {
        add(TokenType::kData, line_, std::string(rest()));
        advance(rest().size());
        return;
      }
      const char next = rest()[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
    }
    const char kind = rest()[tag + 1];
    const char sign = sign_after(tag + 2);
    const size_t raw = kind == '%' ? raw_tag_size(rest().substr(tag), "raw") : 0;
    add_data_before(tag, sign, kind == '{');
    if (raw != 0) {
      advance(raw);
      lex_raw();
      return;
    }
    const int line = line_;
    advance(sign == '\0' ? 2 : 3);
    if (kind == '#') {
      lex_comment();
    } else {
      const bool is_block = kind == '%';
      add(is_block ? TokenType::kBlockBegin : TokenType::kVariableBegin, line);
      lex_expression(is_block);
    }
  }

  // The size of "{% raw %}" or "{% endraw %}" at the start of `text` with the space that it takes, or 0.
  static size_t raw_tag_size(std::string_view text, std::string_view name) {
    size_t at = 2;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    at += leading_space(text.substr(at));
    if (!text.substr(at).starts_with(name)) return 0;
    at += name.size();
    at += leading_space(text.substr(at));
    const std::string_view end = text.substr(at);
    if (end.starts_with("-%}")) return at + 3 + leading_space(end.substr(3));
    // Only the end of a raw block is an end of a block to trim_blocks, and knows a plus.
    const bool is_end = name == "endraw";
    if (is_end && end.starts_with("+%}")) return at + 3;
    if (!end.starts_with("%}")) return 0;
    return at + 2 + (is_end && end.substr(2).starts_with('\n') ? 1 : 0);
  }

  void lex_raw() {
    for (size_t tag = rest().find("{%"); tag != std::string_view::npos; tag = rest().find("{%", tag + 1)) {
      const size_t size = raw_tag_size(rest().substr(tag), "endraw");
      if (size == 0) continue;
      add_data_before(tag, sign_after(tag + 2), false);
      advance(size);
      return;
    }
    fail_here("Missing end of raw directive");
  }

  void lex_comment() {
    const size_t end = rest().find("#}");
    if (end == std::string_view::npos) fail_here("Missing end of comment tag");
    const char sign = end == 0 ? '\0' : rest()[end - 1];
    advance(end + 2);
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && starts("\n")) {
      advance(1);
    }
  }

  bool lex_end(bool is_block) {
    const std::string_view end = is_block ? "%}" : "}}";
    const int line = line_;
    const TokenType type = is_block ? TokenType::kBlockEnd : TokenType::kVariableEnd;
    if (starts("-") && rest().substr(1).starts_with(end)) {
      advance(3);
      skip_space();
    } else if (is_block && starts("+%}")) {
      advance(3);
    } else if (starts(end)) {
      advance(is_block && rest().substr(2).starts_with('\n') ? 3 : 2);
    } else {
      return false;
    }
    add(type, line);
    return true;
  }

  void lex_expression(bool is_block) {
    std::string brackets;  // the closing ones that are expected; an end tag inside brackets is operators
    while (at_ < source_.size()) {
      if (brackets.empty() && lex_end(is_block)) return;
      if (const size_t space = leading_space(rest())) {
        advance(space);
      } else if (!lex_number() && !lex_name() && !lex_string() && !lex_operator(brackets)) {
        const auto [code_point, size] = unicode::decode(source_, at_);
        fail_here(fmt::format("unexpected char '{}' at {}", rest().substr(0, size),
                              unicode::count_characters(std::string_view(source_).substr(0, at_))));
      }
    }
  }

  // Digits with single underscores between them, from `at` of rest().
  size_t digits(size_t at, bool (*is_one)(char)) const {
    const std::string_view text = rest();
    const auto one = [&](size_t i) { return i < text.size() && is_one(text[i]); };
    size_t end = at;
    while (one(end) || (end > at && end < text.size() && text[end] == '_' && one(end + 1))) ++end;
    return end;
  }

  // The end of a float at the start of rest(), or 0.
  size_t float_end() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return 0;
    const std::string_view text = rest();
    const size_t whole = digits(0, is_digit);
    if (whole == 0) return 0;
    size_t end = whole;
    if (end < text.size() && text[end] == '.') {
      const size_t fraction = digits(end + 1, is_digit);
      if (fraction > end + 1) end = fraction;
    }
    if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
      const size_t exponent_end = digits(exponent, is_digit);
      if (exponent_end > exponent) return exponent_end;
    }
    return end > whole ? end : 0;
  }

  bool lex_number() {
    if (!starts("") || !is_digit(rest()[0])) return false;
    const auto without_underscores = [](std::string_view text) {
      std::string out(text);
      std::erase(out, '_');
      return out;
    };
    if (const size_t end = float_end()) {
      const std::string text = without_underscores(rest().substr(0, end));
      add(TokenType::kFloat, line_);
      tokens_.back().number = Value::number(std::strtod(text.c_str(), nullptr));
      advance(end);
      return true;
    }
    size_t begin = 0;
    int base = 10;
    size_t end = 0;
    const char letter = rest().size() > 1 && rest()[0] == '0' ? static_cast<char>(rest()[1] | 0x20) : '\0';
    if (letter == 'b') base = 2;
    if (letter == 'o') base = 8;
    if (letter == 'x') base = 16;
    if (base != 10) {
      begin = 2;
      const size_t first = begin + (rest().substr(begin).starts_with('_') ? 1 : 0);
      end = base == 2   ? digits(first, [](char c) { return c == '0' || c == '1'; })
            : base == 8 ? digits(first, [](char c) { return c >= '0' && c <= '7'; })
                        : digits(first, [](char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); });
      if (end == first) base = 10;
    }
    if (base == 10) {
      begin = 0;
      // A number that begins with 0 is only zeros.
      end = rest()[0] == '0' ? digits(0, [](char c) { return c == '0'; }) : digits(0, is_digit);
    }
    const auto value = parse_integer(without_underscores(rest().substr(begin, end - begin)), base);
    if (!value) fail_here("integer literal is beyond 128 bits");
    add(TokenType::kInteger, line_, std::string(rest().substr(0, end)));
    tokens_.back().number = Value::integer(*value);
    advance(end);
    return true;
  }

  bool lex_name() {
    size_t end = 0;
    while (end < rest().size()) {
      const auto [code_point, size] = unicode::decode(source_, at_ + end);
      if (!unicode::is_word(code_point)) break;
      end += size;
    }
    if (end == 0) return false;
    const char32_t first = unicode::decode(source_, at_).code_point;
    if (first != '_' && !unicode::is_letter(first)) fail_here("Invalid character in identifier");
    add(TokenType::kName, line_, std::string(rest().substr(0, end)));
    advance(end);
    return true;
  }

  bool lex_string() {
    const char quote = rest()[0];
    if (quote != '\'' && quote != '"') return false;
    size_t end = 1;
    while (end < rest().size() && rest()[end] != quote) end += rest()[end] == '\\' ? 2 : 1;
    if (end >= rest().size()) return false;
    const std::string_view inside = rest().substr(1, end - 1);
    std::string error;
    std::optional<std::string> text = unescape(inside, error);
    if (!text) fail_here(std::move(error));
    add(TokenType::kString, line_, *std::move(text));
    advance(end + 1);
    return true;
  }

  bool lex_operator(std::string& brackets) {
    const auto* const found =
        std::find_if(kOperators.begin(), kOperators.end(), [&](const Operator& op) { return starts(op.text); });
    if (found == kOperators.end()) return false;
    const char c = found->text[0];
    if (c == '{' || c == '(' || c == '[') {
      brackets += c == '{' ? '}' : c == '(' ? ')' : ']';
    } else if (c == '}' || c == ')' || c == ']') {
      if (brackets.empty()) fail_here(fmt::format("unexpected '{}'", c));
      const char expected = brackets.back();
      brackets.pop_back();
      if (expected != c) fail_here(fmt::format("unexpected '{}', expected '{}'", c, expected));
    }
    add(found->type, line_, std::string(found->text));
    advance(found->text.size());
    return true;
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string_view describe(TokenType type) {
  switch (type) {
    case TokenType::kData:
      return "template data / text";
    case TokenType::kVariableBegin:
      return "begin of print statement";
    case TokenType::kVariableEnd:
      return "end of print statement";
    case TokenType::kBlockBegin:
      return "begin of statement block";
    case TokenType::kBlockEnd:
      return "end of statement block";
    case TokenType::kName:
      return "name";
    case TokenType::kString:
      return "string";
    case TokenType::kInteger:
      return "integer";
    case TokenType::kFloat:
      return "float";
    case TokenType::kEnd:
      return "end of template";
    default:
      return std::find_if(kOperators.begin(), kOperators.end(), [&](const Operator& op) { return op.type == type; })
          ->text;
  }
}

std::string describe(const Token& token) {
  return token.type == TokenType::kName ? token.text : std::string(describe(token.type));
}

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace unspool::jinja
