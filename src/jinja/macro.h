// A macro, or the caller of a call block.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jinja/ast.h"
#include "jinja/object.h"

namespace unspool::jinja {

struct Frame;

// Owned by the interpreter: the frame it closes over may hold it.
class Macro final : public Object {
 public:
  Macro(const Statement& statement, Frame& closure) : statement_(statement), closure_(closure) {}

  std::string type_name() const override { return "Macro"; }
  Text repr(Interpreter& interpreter) const override;
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override;

 private:
  bool is_anonymous() const { return statement_.kind != Statement::Kind::kMacro; }
  bool has_parameter(std::string_view name) const;
  std::string quoted_name() const;
  void bind(Interpreter& interpreter, Arguments arguments, Frame& frame) const;

  const Statement& statement_;
  Frame& closure_;
};

}  // namespace unspool::jinja
