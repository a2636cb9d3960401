// The variable `loop` of a for loop: jinja2's LoopContext.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/iteration.h"
#include "jinja/object.h"

namespace unspool::jinja {

struct Frame;

// Owned by the interpreter, since what `changed` remembers may hold the loop itself.
class Loop final : public Object {
 public:
  // What a recursive loop calls: its statement, and the frame around it.
  struct Recursion {
    const Statement* statement = nullptr;
    Frame* frame = nullptr;
  };
  Loop(Value iterable, Recursion recursion, Integer depth0, Interpreter& interpreter)
      : interpreter_(interpreter),
        iterable_(iterable),
        iteration_(std::move(iterable), interpreter),
        recursion_(recursion),
        depth0_(depth0) {}

  // The next item; nullopt at the end.
  std::optional<Value> advance();

  std::string type_name() const override { return "LoopContext"; }
  Text repr(Interpreter& interpreter) const override;
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;
  std::optional<Integer> length(Interpreter&) override { return length(); }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override;

 private:
  Integer length();
  const std::optional<Value>& peek();
  std::optional<Value> take();
  Value cycle(const std::vector<Value>& items) const;
  bool changed(Value values);

  Interpreter& interpreter_;
  Value iterable_;
  Iteration iteration_;
  std::vector<Value> buffered_;  // read ahead to learn the length, in reverse
  bool is_buffered_ = false;
  std::optional<Integer> length_;
  std::optional<Value> after_;  // peeked
  std::optional<Value> current_;
  std::optional<Value> before_;
  std::optional<Value> last_changed_;
  Integer index0_ = -1;
  Recursion recursion_;
  Integer depth0_;
};

Loop* as_loop(const Value& value);

}  // namespace unspool::jinja
