// Values with behaviour of their own: functions, macros, namespaces, the loop variable.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace unspool::jinja {

class Interpreter;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;  // in the order of the call

  // Removes and returns a keyword argument.
  std::optional<Value> take(std::string_view name);
};

class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;  // Python's name of the type
  virtual Text repr(Interpreter& interpreter) const;
  virtual std::optional<Value> attribute(Interpreter& interpreter, std::string_view name);
  virtual bool is_callable() const { return false; }
  virtual Value call(Interpreter& interpreter, Arguments arguments);
  virtual std::optional<Integer> length(Interpreter& interpreter);
  // How deep values lie inside; 0 where it does not own them (the interpreter owns what can hold itself).
  virtual int nesting() const { return 0; }
};

// A function of the engine, or a method bound to the value it was taken from.
class Function final : public Object {
 public:
  using Body = Value (*)(Interpreter& interpreter, const Value& self, Arguments arguments);
  Function(std::string name, Body body, Value self = {})
      : name_(std::move(name)), body_(body), self_(std::move(self)), nesting_(self_.nesting()) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  Text repr(Interpreter& interpreter) const override;
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override;
  int nesting() const override { return nesting_; }

 private:
  std::string name_;
  Body body_;
  Value self_;
  int nesting_;
};

// What `namespace()` gives: the one thing that a template can change.
class Namespace final : public Object {
 public:
  std::string type_name() const override { return "TemplateNamespace"; }
  Text repr(Interpreter& interpreter) const override;
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;
  // Names that begin with an underscore are refused, as transformers does.
  void set(const Value& name, Value value);

 private:
  Dict attributes_;
};

}  // namespace unspool::jinja
