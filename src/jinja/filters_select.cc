// map, select, reject and their forms for attributes: generators, computed as they are taken.
#include <fmt/format.h>

#include "jinja/filter_support.h"
#include "jinja/iteration.h"
#include "jinja/template_error.h"

namespace unspool::jinja {
namespace {

using ItemFunction = std::function<Value(const Value&)>;

// A generator over `value` that prepares itself with the first item, as Python's do: what is wrong with the arguments
// shows then, and not at all where there is nothing to go over.
Value generator(Interpreter& interpreter, const Value& value, std::function<ItemFunction()> prepare, bool is_map) {
  struct State {
    std::optional<Iteration> iteration;
    ItemFunction function;
    bool is_over = false;
  };
  auto state = std::make_shared<State>();
  return Value::iterator(value, [&interpreter, value, prepare, is_map, state]() -> std::optional<Value> {
    if (state->is_over) return std::nullopt;
    if (!state->iteration) {
      if (!truthy(value)) {
        state->is_over = true;
        return std::nullopt;
      }
      state->function = prepare();
      state->iteration.emplace(value, interpreter);
    }
    while (std::optional<Value> item = state->iteration->next()) {
      Value result = state->function(*item);
      if (is_map) return result;
      if (truthy(result)) return item;
    }
    state->is_over = true;
    return std::nullopt;
  });
}

std::string name_of(const Value& name) {
  return name.is_string() ? name.text().bytes() : std::string();
}

ItemFunction map_function(Interpreter& interpreter, Arguments arguments) {
  if (arguments.positional.empty()) {
    if (std::optional<Value> attribute = arguments.take("attribute")) {
      std::optional<Value> otherwise = arguments.take("default");
      if (otherwise && otherwise->is_none()) otherwise.reset();
      if (!arguments.keywords.empty()) {
        fail(fmt::format("Unexpected keyword argument '{}'", arguments.keywords[0].first));
      }
      return [&interpreter, parts = attribute_parts(*attribute), otherwise](const Value& item) {
        return attribute_of(interpreter, item, parts, otherwise);
      };
    }
    fail("map requires a filter argument");
  }
  const std::string name = name_of(arguments.positional[0]);
  arguments.positional.erase(arguments.positional.begin());
  return [&interpreter, name, arguments](const Value& item) { return interpreter.apply_filter(name, item, arguments); };
}

Value map(Interpreter& interpreter, const Value& value, Arguments arguments) {
  return generator(
      interpreter, value, [&interpreter, arguments] { return map_function(interpreter, arguments); }, true);
}

ItemFunction select_function(Interpreter& interpreter, Arguments arguments, bool of_attribute, bool wanted) {
  std::vector<Value> parts;
  std::vector<Value>& positional = arguments.positional;
  if (of_attribute) {
    if (positional.empty()) fail("Missing parameter for attribute name");
    parts = attribute_parts(positional[0]);
    positional.erase(positional.begin());
  }
  std::optional<std::string> test;
  if (!positional.empty()) {
    test = name_of(positional[0]);
    positional.erase(positional.begin());
  }
  return [&interpreter, parts, test, arguments, wanted](const Value& item) {
    const Value value = attribute_of(interpreter, item, parts);
    const Value holds = test ? interpreter.apply_test(*test, value, arguments) : value;
    return Value::boolean(truthy(holds) == wanted);
  };
}

template <bool kOfAttribute, bool kWanted>
Value select(Interpreter& interpreter, const Value& value, Arguments arguments) {
  return generator(
      interpreter, value,
      [&interpreter, arguments] { return select_function(interpreter, arguments, kOfAttribute, kWanted); }, false);
}

constexpr NamedFilter kFilters[] = {
    {"map", map},
    {"select", select<false, true>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<true, false>},
};

}  // namespace

FilterBody find_select_filter(std::string_view name) {
  return find_in(kFilters, name);
}

}  // namespace unspool::jinja
