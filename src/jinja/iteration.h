// Goes over the items of a value, as Python's iter() does.
#pragma once

#include <optional>
#include <vector>

#include "jinja/value.h"

namespace unspool::jinja {

class Interpreter;

class Iteration {
 public:
  // Throws where the value is not iterable. Every item is a step of the budget.
  Iteration(Value value, Interpreter& interpreter);
  std::optional<Value> next();

 private:
  std::optional<Value> take();

  Value value_;
  Interpreter& interpreter_;
  size_t at_ = 0;
};

bool is_iterable(const Value& value);
std::vector<Value> to_vector(const Value& value, Interpreter& interpreter);

}  // namespace unspool::jinja
