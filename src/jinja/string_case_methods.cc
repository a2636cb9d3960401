// The methods of str about case and kinds of characters.
#include <fmt/format.h>

#include "jinja/arguments.h"
#include "jinja/characters.h"
#include "jinja/interpreter.h"
#include "jinja/methods.h"
#include "jinja/operations.h"
#include "jinja/string_search.h"
#include "jinja/template_error.h"
#include "unicode/categories.h"
#include "unicode/python_str.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

const Text& text_without_arguments(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.keywords.empty()) {
    fail(fmt::format("the method takes no arguments ({} given)",
                     arguments.positional.size() + arguments.keywords.size()));
  }
  interpreter.budget().spend_bytes(12 * self.text().size());  // every character is looked up
  return self.text();
}

template <Text (*kMap)(const Text&)>
Value map_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  return Value::string(kMap(text_without_arguments(interpreter, self, arguments)), self.is_markup());
}

// Calls visit(code point, the character's own text) for each character and joins what it gives.
template <class Map>
Text map_each(const Text& text, Map map) {
  Text out;
  for (const Text::Run& run : text.runs()) {
    std::string mapped;
    for (size_t at = run.begin; at < run.end;) {
      const auto [code_point, size] = unicode::decode(text.view(), at);
      map(mapped, code_point);
      at += size;
    }
    out.append(mapped, run.origin);
  }
  return out;
}

Text title_words(const Text& text) {
  bool in_word = false;
  return map_each(text, [&](std::string& out, char32_t code_point) {
    if (in_word) {
      unicode::append_lower(out, code_point);
    } else {
      unicode::append_title(out, code_point);
    }
    in_word = unicode::is_cased(code_point);
  });
}

Text swap_case(const Text& text) {
  return map_each(text, [](std::string& out, char32_t code_point) {
    if (unicode::is_uppercase(code_point)) {
      unicode::append_lower(out, code_point);
    } else if (unicode::is_lowercase(code_point)) {
      unicode::append_upper(out, code_point);
    } else {
      unicode::append(out, code_point);
    }
  });
}

Text fold_case(const Text& text) {
  return map_each(text, [](std::string& out, char32_t code_point) { unicode::append_fold(out, code_point); });
}

bool is_alphanumeric(char32_t code_point) {
  return unicode::is_alpha(code_point) || unicode::is_digit(code_point) || unicode::is_numeric_in_python(code_point);
}
bool is_ascii(char32_t code_point) {
  return code_point < 0x80;
}
bool is_identifier_part(char32_t code_point) {
  return unicode::is_word(code_point);
}

// All characters are of a kind, and there is one.
template <bool (*kIs)(char32_t), bool kOfEmpty = false>
Value all_are(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const std::string_view text = text_without_arguments(interpreter, self, arguments).view();
  for (size_t at = 0; at < text.size();) {
    const auto [code_point, size] = unicode::decode(text, at);
    if (!kIs(code_point)) return Value::boolean(false);
    at += size;
  }
  return Value::boolean(kOfEmpty || !text.empty());
}

Value is_identifier(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const std::string_view text = self.text().view();
  if (!text.empty()) {
    const char32_t first = unicode::decode(text, 0).code_point;
    if (first != '_' && !unicode::is_letter(first)) return Value::boolean(false);
  }
  return all_are<is_identifier_part>(interpreter, self, std::move(arguments));
}

Value is_title(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const std::string_view text = text_without_arguments(interpreter, self, arguments).view();
  bool has_cased = false;
  bool after_cased = false;
  for (size_t at = 0; at < text.size();) {
    const auto [code_point, size] = unicode::decode(text, at);
    at += size;
    const bool is_upper = unicode::is_uppercase(code_point) || unicode::is_titlecase(code_point);
    const bool is_lower = unicode::is_lowercase(code_point);
    if ((is_upper && after_cased) || (is_lower && !after_cased)) return Value::boolean(false);
    after_cased = is_upper || is_lower;
    has_cased = has_cased || after_cased;
  }
  return Value::boolean(has_cased);
}

template <bool kUpper>
Value is_case(Interpreter& interpreter, const Value& self, Arguments arguments) {
  return Value::boolean(is_all_case(text_without_arguments(interpreter, self, arguments).view(), kUpper));
}

constexpr NamedMethod kMethods[] = {
    {"upper", map_method<upper>},
    {"lower", map_method<lower>},
    {"capitalize", map_method<capitalize>},
    {"title", map_method<title_words>},
    {"swapcase", map_method<swap_case>},
    {"casefold", map_method<fold_case>},
    {"isalpha", all_are<unicode::is_alpha>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isdecimal", all_are<unicode::is_decimal>},
    {"isdigit", all_are<unicode::is_digit>},
    {"isnumeric", all_are<unicode::is_numeric_in_python>},
    {"isspace", all_are<is_space>},
    {"isascii", all_are<is_ascii, true>},
    {"isprintable", all_are<unicode::is_printable, true>},
    {"isidentifier", is_identifier},
    {"istitle", is_title},
    {"isupper", is_case<true>},
    {"islower", is_case<false>},
};

}  // namespace

Function::Body find_string_case_method(std::string_view name) {
  for (const NamedMethod& method : kMethods) {
    if (method.name == name) return method.body;
  }
  return nullptr;
}

bool is_all_case(std::string_view text, bool is_upper) {
  bool has_cased = false;
  for (size_t at = 0; at < text.size();) {
    const auto [code_point, size] = unicode::decode(text, at);
    at += size;
    const bool fits = is_upper ? unicode::is_uppercase(code_point) : unicode::is_lowercase(code_point);
    if (!fits && unicode::is_cased(code_point)) return false;
    has_cased = has_cased || fits;
  }
  return has_cased;
}

}  // namespace unspool::jinja
