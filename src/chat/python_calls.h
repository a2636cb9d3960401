// Calls written as Python: name(key=literal, ...).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "chat/python_json.h"

namespace unspool::chat {

struct PythonCall {
  std::string name;      // with dots where it has some
  PythonJson arguments;  // an object
  // How the reference's pattern wants a call to be: a plain name, its parenthesis at once, and in it the first keyword.
  bool is_plain = false;
};

// Reads expressions of Python, as far as they are literals: what ast.literal_eval takes, JSON's own words for null,
// true and false, and strings without holes.
class PythonCallReader {
 public:
  explicit PythonCallReader(std::string_view text) : text_(text) {}

  // The call that begins here; nullopt where there is none, or its arguments are no literals with keywords.
  std::optional<PythonCall> read_call();
  // Takes `c`, and space before it.
  bool take(char c);
  void skip_space();
  bool at_end() const { return at_ == text_.size(); }

 private:
  std::optional<std::string> identifier();
  bool value(PythonJson& out);
  bool word(PythonJson& out);
  bool number(PythonJson& out);
  bool signed_number(PythonJson& out);
  bool strings(PythonJson& out);
  bool one_string(std::string& out);
  bool string_body(std::string& out, bool is_raw, bool is_format);
  bool escape(std::string& out);
  bool code_point(std::string& out, size_t digits);
  bool sequence(PythonJson& out, char close);
  bool braces(PythonJson& out);
  bool key_text(const PythonJson& key, std::string& out) const;
  bool parenthesis(PythonJson& out);
  bool begins_string() const;
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  std::string_view text_;
  size_t at_ = 0;
  size_t depth_ = 0;
};

}  // namespace unspool::chat
