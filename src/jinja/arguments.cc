#include "jinja/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/operations.h"

namespace unspool::jinja {

std::optional<Value> Arguments::take(std::string_view name) {
  const auto found =
      std::find_if(keywords.begin(), keywords.end(), [&](const auto& keyword) { return keyword.first == name; });
  if (found == keywords.end()) return std::nullopt;
  std::optional<Value> value = std::move(found->second);
  keywords.erase(found);
  return value;
}

Bound::Bound(std::string_view function, std::initializer_list<std::string_view> parameters, size_t num_required,
             Arguments arguments) {
  if (arguments.positional.size() > parameters.size()) {
    fail(fmt::format("{}() takes at most {} argument{} ({} given)", function, parameters.size(),
                     parameters.size() == 1 ? "" : "s", arguments.positional.size()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string_view name = parameters.begin()[i];
    std::optional<Value> keyword = arguments.take(name);
    if (i >= arguments.positional.size()) {
      values_.push_back(std::move(keyword));
    } else if (keyword) {
      fail(fmt::format("{}() got multiple values for argument '{}'", function, name));
    } else {
      values_.emplace_back(std::move(arguments.positional[i]));
    }
    if (i < num_required && !values_[i]) {
      fail(fmt::format("{}() missing 1 required positional argument: '{}'", function, name));
    }
  }
  if (!arguments.keywords.empty()) {
    fail(fmt::format("{}() got an unexpected keyword argument '{}'", function, arguments.keywords[0].first));
  }
}

bool Bound::flag(size_t i) const {
  return has(i) && truthy(*values_[i]);
}

Integer Bound::integer(size_t i, Integer otherwise) const {
  return has(i) ? require_integer(*values_[i]) : otherwise;
}

const Text& Bound::text(size_t i) const {
  const Value& value = *values_[i];
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string()) fail(fmt::format("must be str, not {}", type_name(value)));
  return value.text();
}

Integer require_integer(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  const auto integer = value.as_integer();
  if (!integer) fail(fmt::format("'{}' object cannot be interpreted as an integer", type_name(value)));
  return *integer;
}

size_t require_size(const Value& value) {
  const Integer integer = require_integer(value);
  // Far beyond the budget of steps, and far below an overflow of what is computed with it.
  constexpr Integer kLargest = Integer{1} << 40;
  return static_cast<size_t>(std::clamp<Integer>(integer, 0, kLargest));
}

}  // namespace unspool::jinja
