// Binds the arguments of a call to the parameters of a function of the engine, as Python does.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "jinja/object.h"

namespace unspool::jinja {

class Interpreter;

// The parameters of `function`, of which the first `num_required` have no default.
class Bound {
 public:
  // Throws where arguments are missing, unknown, repeated or too many.
  Bound(std::string_view function, std::initializer_list<std::string_view> parameters, size_t num_required,
        Arguments arguments);

  bool has(size_t i) const { return values_[i].has_value(); }
  // Given, and not none.
  bool is_set(size_t i) const { return has(i) && !values_[i]->is_none(); }
  const Value& operator[](size_t i) const { return *values_[i]; }
  Value get(size_t i, Value otherwise) const {
    if (has(i)) return *values_[i];
    return otherwise;
  }
  bool flag(size_t i) const;
  // An integer argument; throws as Python does where it is none.
  Integer integer(size_t i, Integer otherwise) const;
  // A string argument that Python's str method insists on.
  const Text& text(size_t i) const;

 private:
  std::vector<std::optional<Value>> values_;
};

// int where Python takes an index; the error names the type.
Integer require_integer(const Value& value);
// A count that becomes a size in memory or a number of steps.
size_t require_size(const Value& value);

}  // namespace unspool::jinja
