#include "chat/python_calls.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "jinja/characters.h"
#include "jinja/operations.h"
#include "unicode/utf8.h"

namespace unspool::chat {
namespace {

using Kind = PythonJson::Kind;

// Python's tokenizer takes no more brackets inside one another.
constexpr size_t kMaxBrackets = 200;

// Names that are none: nothing may be called so.
constexpr std::array<std::string_view, 35> kKeywords{
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool begins_name(char c) {
  return is_letter(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool continues_name(char c) {
  return begins_name(c) || is_digit(c);
}
int hex_digit(char c) {
  const char lower = static_cast<char>(c | 0x20);
  if (is_digit(c)) return c - '0';
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// A decimal number of Python in JSON's grammar, which wants digits on both sides of a point and no zeros in front.
std::string as_json_number(std::string_view number) {
  const size_t integer_end = std::min(number.find_first_of(".eE"), number.size());
  std::string_view integer = number.substr(0, integer_end);
  std::string_view rest = number.substr(integer_end);
  integer.remove_prefix(std::min(integer.find_first_not_of('0'), integer.size()));
  std::string out(integer.empty() ? "0" : integer);
  if (rest.starts_with('.') && (rest.size() == 1 || !is_digit(rest[1]))) {
    out += ".0";
    rest.remove_prefix(1);
  }
  out += rest;
  return out;
}

void set_member(PythonJson& object, std::map<std::string, size_t>& positions, std::string key, PythonJson value) {
  const auto [position, is_new] = positions.emplace(key, object.keys.size());
  if (is_new) {
    object.keys.push_back(std::move(key));
    object.items.push_back(std::move(value));
  } else {
    object.items[position->second] = std::move(value);
  }
}

}  // namespace

void PythonCallReader::skip_space() {
  while (!at_end() && std::string_view(" \t\n\r\f").find(text_[at_]) != std::string_view::npos) ++at_;
}

bool PythonCallReader::take(char c) {
  skip_space();
  if (at_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

std::optional<std::string> PythonCallReader::identifier() {
  if (!begins_name(peek())) return std::nullopt;
  const size_t begin = at_;
  while (!at_end() && continues_name(text_[at_])) ++at_;
  return std::string(text_.substr(begin, at_ - begin));
}

std::optional<PythonCall> PythonCallReader::read_call() {
  const auto is_keyword = [](const std::string& name) { return std::ranges::find(kKeywords, name) != kKeywords.end(); };
  PythonCall call;
  do {
    if (!call.name.empty()) call.name += '.';
    skip_space();
    const auto part = identifier();
    if (!part || is_keyword(*part)) return std::nullopt;
    call.name += *part;
  } while (take('.'));
  call.is_plain =
      is_letter(call.name[0]) && call.name.find('.') == std::string::npos && text_.substr(0, at_).ends_with(call.name);
  call.is_plain = call.is_plain && peek() == '(';
  if (!take('(')) return std::nullopt;
  call.is_plain = call.is_plain && (is_letter(peek()) || peek() == ')');
  call.arguments.kind = Kind::kObject;
  std::map<std::string, size_t> positions;
  while (!take(')')) {
    const bool is_first = call.arguments.items.empty();
    if (!is_first && !take(',')) return std::nullopt;
    if (!is_first && take(')')) break;  // a comma may be the last
    skip_space();
    auto key = identifier();
    if (!key || is_keyword(*key)) return std::nullopt;
    if (is_first) call.is_plain = call.is_plain && peek() == '=';
    PythonJson argument;
    if (!take('=') || !value(argument)) return std::nullopt;
    set_member(call.arguments, positions, std::move(*key), std::move(argument));
  }
  return call;
}

bool PythonCallReader::value(PythonJson& out) {
  skip_space();
  const char c = peek();
  if (begins_string()) return strings(out);
  if (c == '-' || c == '+') return signed_number(out);
  if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number(out);
  if (c != '[' && c != '{' && c != '(') return word(out);
  if (++depth_ > kMaxBrackets) return false;
  ++at_;
  const bool ok = c == '[' ? sequence(out, ']') : c == '{' ? braces(out) : parenthesis(out);
  --depth_;
  return ok;
}

bool PythonCallReader::word(PythonJson& out) {
  const auto name = identifier();
  if (!name) return false;
  if (*name == "None" || *name == "null") {
    out = {};
  } else if (*name == "True" || *name == "true") {
    out = PythonJson::boolean(true);
  } else if (*name == "False" || *name == "false") {
    out = PythonJson::boolean(false);
  } else {
    return false;
  }
  return true;
}

// Signs of numbers, as many as there are. Each is a level of Python's parser.
bool PythonCallReader::signed_number(PythonJson& out) {
  bool is_negative = false;
  size_t signs = 0;
  for (; peek() == '-' || peek() == '+'; skip_space()) {
    if (++signs > kMaxBrackets) return false;
    is_negative = is_negative != (peek() == '-');
    ++at_;
  }
  if (!value(out) || (out.kind != Kind::kInteger && out.kind != Kind::kFloat)) return false;
  if (!is_negative) return true;
  if (out.text.starts_with('-')) {
    out.text.erase(0, 1);
  } else if (out.kind == Kind::kFloat || out.text != "0") {
    std::string text = "-";
    text += out.text;
    out.text = std::move(text);
  }
  return true;
}

bool PythonCallReader::number(PythonJson& out) {
  const size_t begin = at_;
  // Letters too: a base, an exponent, or what makes it no number.
  while (continues_name(peek()) || peek() == '.' ||
         ((peek() == '-' || peek() == '+') && (text_[at_ - 1] | 0x20) == 'e' && (text_[begin + 1] | 0x20) != 'x')) {
    ++at_;
  }
  std::string digits(text_.substr(begin, at_ - begin));
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') continue;
    if (i + 1 == digits.size() || hex_digit(digits[i + 1]) < 0 || hex_digit(digits[i - 1]) < 0) return false;
  }
  std::erase(digits, '_');
  if (digits.size() > 2 && digits[0] == '0' && is_letter(digits[1]) && (digits[1] | 0x20) != 'e') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    const auto integer = base == 0 ? std::nullopt : jinja::parse_integer(std::string_view(digits).substr(2), base);
    if (!integer) return false;
    out = PythonJson::integer(jinja::integer_text(*integer));
    return true;
  }
  if (std::ranges::all_of(digits, is_digit)) {
    const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
    if (zeros > 0 && zeros < digits.size()) return false;
    digits.erase(0, std::min(zeros, digits.size() - 1));
  } else {
    digits = as_json_number(digits);
  }
  auto parsed = parse_python_json(digits);
  if (!parsed || (parsed->kind != Kind::kInteger && parsed->kind != Kind::kFloat)) return false;
  out = std::move(*parsed);
  return true;
}

bool PythonCallReader::begins_string() const {
  size_t prefix = 0;
  while (prefix < 2 && is_letter(peek(prefix))) ++prefix;
  return peek(prefix) == '"' || peek(prefix) == '\'';
}

// Strings side by side are one.
bool PythonCallReader::strings(PythonJson& out) {
  std::string text;
  do {
    if (!one_string(text)) return false;
    skip_space();
  } while (begins_string());
  out = PythonJson::string(std::move(text));
  return true;
}

bool PythonCallReader::one_string(std::string& out) {
  bool is_raw = false;
  bool is_format = false;
  bool is_unicode = false;
  for (; is_letter(peek()); ++at_) {
    const char letter = static_cast<char>(peek() | 0x20);
    bool& flag = letter == 'r' ? is_raw : letter == 'f' ? is_format : is_unicode;
    if (flag || (letter != 'r' && letter != 'f' && letter != 'u')) return false;  // bytes are no JSON
    flag = true;
  }
  if (is_unicode && (is_raw || is_format)) return false;
  return string_body(out, is_raw, is_format);
}

bool PythonCallReader::string_body(std::string& out, bool is_raw, bool is_format) {
  const char quote = peek();
  const bool is_triple = peek(1) == quote && peek(2) == quote;
  const std::string close(is_triple ? 3 : 1, quote);
  at_ += close.size();
  while (!at_end()) {
    if (text_.substr(at_).starts_with(close)) {
      at_ += close.size();
      return true;
    }
    const char c = text_[at_++];
    if (c == '\0' || (c == '\n' && !is_triple)) return false;
    if (is_format && (c == '{' || c == '}')) {
      if (peek() != c) return false;  // a hole
      ++at_;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    if (at_end()) return false;
    if (is_raw) {
      out += c;
      out += text_[at_++];
    } else if (!escape(out)) {
      return false;
    }
  }
  return false;
}

bool PythonCallReader::escape(std::string& out) {
  const char c = text_[at_++];
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  if (const size_t which = kLetters.find(c); which != std::string_view::npos) {
    out += "\\'\"\a\b\f\n\r\t\v"[which];
    return true;
  }
  switch (c) {
    case '\n':
      return true;
    case 'x':
      return code_point(out, 2);
    case 'u':
      return code_point(out, 4);
    case 'U':
      return code_point(out, 8);
    case 'N':
      return false;  // a character's name
    default:
      break;
  }
  if (c < '0' || c > '7') {
    out += '\\';
    out += c;
    return true;
  }
  char32_t code = static_cast<char32_t>(c - '0');
  for (int digits = 1; digits < 3 && peek() >= '0' && peek() <= '7'; ++digits, ++at_) {
    code = code * 8 + static_cast<char32_t>(peek() - '0');
  }
  unicode::append(out, code);
  return true;
}

bool PythonCallReader::code_point(std::string& out, size_t digits) {
  char32_t code = 0;
  for (; digits > 0; --digits, ++at_) {
    const int digit = hex_digit(peek());
    if (digit < 0 || code > 0x10FFFF) return false;
    code = code * 16 + static_cast<char32_t>(digit);
  }
  if (code > 0x10FFFF) return false;
  append_code_unit(out, code);
  return true;
}

bool PythonCallReader::sequence(PythonJson& out, char close) {
  out.kind = Kind::kArray;
  while (!take(close)) {
    if (!out.items.empty()) {
      if (!take(',')) return false;
      if (take(close)) break;
    }
    if (!value(out.items.emplace_back())) return false;
  }
  return true;
}

// A dict or a set, which JSON has as a list.
bool PythonCallReader::braces(PythonJson& out) {
  out.kind = Kind::kObject;
  if (take('}')) return true;
  std::map<std::string, size_t> positions;
  bool is_set = false;
  do {
    if (take('}')) return true;
    PythonJson first;
    if (!value(first)) return false;
    const bool has_value = take(':');
    if (out.items.empty()) is_set = !has_value;
    if (is_set != !has_value) return false;
    if (is_set) {
      out.kind = Kind::kArray;
      out.items.push_back(std::move(first));
      continue;
    }
    std::string key;
    PythonJson member;
    if (!key_text(first, key) || !value(member)) return false;
    set_member(out, positions, std::move(key), std::move(member));
  } while (take(','));
  return take('}');
}

// A key as json.dumps writes it. Signed numbers are no constants to Python's syntax, and refused by the reference.
bool PythonCallReader::key_text(const PythonJson& key, std::string& out) const {
  if (!key.is_string() && (key.is_object() || key.is_array() || key.text.starts_with('-'))) return false;
  out = key.is_string() ? key.text : dump_python_json(key);
  return true;
}

// A value in parentheses, or a tuple.
bool PythonCallReader::parenthesis(PythonJson& out) {
  if (take(')')) {
    out.kind = Kind::kArray;
    return true;
  }
  PythonJson first;
  if (!value(first)) return false;
  if (take(')')) {
    out = std::move(first);
    return true;
  }
  if (!take(',')) return false;
  out.kind = Kind::kArray;
  out.items.push_back(std::move(first));
  while (!take(')')) {
    if (!value(out.items.emplace_back())) return false;
    if (!take(',')) return take(')');
  }
  return true;
}

}  // namespace unspool::chat
