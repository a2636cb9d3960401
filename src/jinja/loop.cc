#include "jinja/loop.h"

#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/operations.h"

namespace unspool::jinja {

Loop* as_loop(const Value& value) {
  return value.is_object() ? dynamic_cast<Loop*>(&value.as_object()) : nullptr;
}

std::optional<Value> Loop::take() {
  if (!is_buffered_) return iteration_.next();
  if (buffered_.empty()) return std::nullopt;
  std::optional<Value> item = std::move(buffered_.back());
  buffered_.pop_back();
  return item;
}

std::optional<Value> Loop::advance() {
  std::optional<Value> item = after_ ? std::exchange(after_, std::nullopt) : take();
  if (!item) return std::nullopt;
  ++index0_;
  before_ = std::exchange(current_, item);
  return item;
}

const std::optional<Value>& Loop::peek() {
  if (!after_) after_ = take();
  return after_;
}

Integer Loop::length() {
  if (length_) return *length_;
  if (iterable_.is_iterator() || as_loop(iterable_) != nullptr) {
    while (std::optional<Value> item = take()) buffered_.push_back(*std::move(item));
    std::reverse(buffered_.begin(), buffered_.end());
    is_buffered_ = true;
    length_ = static_cast<Integer>(buffered_.size()) + index0_ + 1 + (after_ ? 1 : 0);
  } else {
    length_ = jinja::length(iterable_, interpreter_);
  }
  return *length_;
}

Text Loop::repr(Interpreter&) const {
  return Text("<LoopContext " + integer_text(index0_ + 1) + "/" + integer_text(const_cast<Loop*>(this)->length()) +
              ">");
}

Value Loop::cycle(const std::vector<Value>& items) const {
  if (items.empty()) fail("no items for cycling given");
  return items[static_cast<size_t>(index0_ % static_cast<Integer>(items.size()))];
}

bool Loop::changed(Value values) {
  if (last_changed_ && equal(*last_changed_, values, &interpreter_.budget())) return false;
  last_changed_ = std::move(values);
  return true;
}

std::optional<Value> Loop::attribute(Interpreter&, std::string_view name) {
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index0_);
  if (name == "revindex0") return Value::integer(length() - index0_ - 1);
  if (name == "depth") return Value::integer(depth0_ + 1);
  if (name == "depth0") return Value::integer(depth0_);
  if (name == "previtem") {
    return index0_ == 0 || !before_ ? Value::undefined("there is no previous item") : *before_;
  }
  if (name == "nextitem") return peek() ? *after_ : Value::undefined("there is no next item");
  // The method holds the loop without owning it: the interpreter does.
  const auto method = [&](const char* method_name, Function::Body body) {
    return Value::object(std::make_shared<Function>(
        method_name, body, Value::object(std::shared_ptr<Object>(std::shared_ptr<Object>(), this))));
  };
  if (name == "cycle") {
    return method("cycle", [](Interpreter&, const Value& self, Arguments arguments) {
      return as_loop(self)->cycle(arguments.positional);
    });
  }
  if (name == "changed") {
    return method("changed", [](Interpreter&, const Value& self, Arguments arguments) {
      return Value::boolean(as_loop(self)->changed(Value::tuple(std::move(arguments.positional))));
    });
  }
  return std::nullopt;
}

Value Loop::call(Interpreter& interpreter, Arguments arguments) {
  if (recursion_.statement == nullptr) {
    fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.keywords.empty()) fail("loop() takes one argument");
  return interpreter.run_recursive_loop(*recursion_.statement, *recursion_.frame, std::move(arguments.positional[0]),
                                        depth0_ + 1);
}

}  // namespace unspool::jinja
