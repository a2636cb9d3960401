// What can go wrong with a template: in its text, while it renders, or by its own word.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <variant>

namespace unspool::jinja {

struct TemplateError {
  enum class Kind {
    kSyntax,       // the template's text
    kRuntime,      // an operation that Python or Jinja refuse, on these inputs
    kUnsupported,  // Jinja could, this engine cannot
    kRaised,       // the template called raise_exception: `message` is its own and meant for whoever sent the messages
    kLimit,        // too many steps, too deep, or too much output
  };
  Kind kind = Kind::kRuntime;
  std::string message;  // as jinja2 or Python word it, where they have a word for it
  int line = 0;         // of the template, from 1; 0 where none is to blame

  // "line 3: 'x' is undefined". A raised message stands alone.
  std::string describe() const {
    if (kind == Kind::kRaised || line == 0) return message;
    return "line " + std::to_string(line) + ": " + message;
  }
};

// Either a value or a TemplateError.
template <class T>
class [[nodiscard]] TemplateResult {
 public:
  TemplateResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  TemplateResult(TemplateError error)                                            // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<1>, std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const TemplateError& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, TemplateError> state_;
};

// Carries an error up through parser and interpreter. An expression may fail at any depth and Python's own semantics
// are those of exceptions, so the room throws inside; nothing escapes it (template.cc catches).
struct Fault : std::exception {
  explicit Fault(TemplateError what) : error(std::move(what)) {}
  const char* what() const noexcept override { return error.message.c_str(); }

  TemplateError error;
};

[[noreturn]] inline void fail(TemplateError::Kind kind, std::string message, int line = 0) {
  throw Fault({kind, std::move(message), line});
}
[[noreturn]] inline void fail(std::string message) {
  fail(TemplateError::Kind::kRuntime, std::move(message));
}
[[noreturn]] inline void fail_unsupported(std::string message) {
  fail(TemplateError::Kind::kUnsupported, std::move(message));
}

}  // namespace unspool::jinja
