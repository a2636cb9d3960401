#include "jinja/globals.h"

#include <fmt/format.h>

#include "jinja/arguments.h"
#include "jinja/interpreter.h"
#include "jinja/iteration.h"
#include "jinja/operations.h"
#include "jinja/template_error.h"

namespace unspool::jinja {
namespace {

// jinja2's own limit in its sandbox.
constexpr Integer kMaxRange = 100'000;

Value make_range(Interpreter&, const Value&, Arguments arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (!arguments.keywords.empty()) fail("range() takes no keyword arguments");
  if (given.empty()) fail("range expected at least 1 argument, got 0");
  if (given.size() > 3) fail(fmt::format("range expected at most 3 arguments, got {}", given.size()));
  Range range{0, 0, 1};
  if (given.size() == 1) {
    range.stop = require_integer(given[0]);
  } else {
    range.start = require_integer(given[0]);
    range.stop = require_integer(given[1]);
    if (given.size() == 3) range.step = require_integer(given[2]);
  }
  // Within 64 bits, so that the arithmetic on it cannot overflow 128.
  constexpr Integer kBound = Integer{1} << 62;
  for (const Integer bound : {range.start, range.stop, range.step}) {
    if (bound > kBound || bound < -kBound) fail_unsupported("a range beyond 64 bits is not supported");
  }
  if (range.step == 0) fail("range() arg 3 must not be zero");
  if (range.size() > kMaxRange) {
    fail(fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", 100'000));
  }
  return Value::range(range);
}

// dict(mapping or pairs, **keywords).
Dict build_dict(Interpreter& interpreter, Arguments arguments) {
  if (arguments.positional.size() > 1) {
    fail(fmt::format("dict expected at most 1 argument, got {}", arguments.positional.size()));
  }
  Dict dict;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    const bool is_mapping = source.is_dict();
    if (source.is_undefined()) fail_undefined(source);
    Iteration iteration(is_mapping ? Value::dict_view(source.shared_dict(), DictPart::kItems) : source, interpreter);
    for (size_t i = 0; const std::optional<Value> pair = iteration.next(); ++i) {
      if (!is_iterable(*pair)) {
        fail(fmt::format("cannot convert dictionary update sequence element #{} to a sequence", i));
      }
      std::vector<Value> items = to_vector(*pair, interpreter);
      if (items.size() != 2) {
        fail(fmt::format("dictionary update sequence element #{} has length {}; 2 is required", i, items.size()));
      }
      dict.set(std::move(items[0]), std::move(items[1]));
    }
  }
  for (auto& [name, value] : arguments.keywords) dict.set(Value::string(name), std::move(value));
  return dict;
}

Value from_keys(Interpreter& interpreter, const Value&, Arguments arguments) {
  const Bound bound("fromkeys", {"iterable", "value"}, 1, std::move(arguments));
  Dict dict;
  Iteration iteration(bound[0], interpreter);
  while (std::optional<Value> key = iteration.next()) dict.set(*std::move(key), bound.get(1, Value::none()));
  return Value::dict(std::move(dict));
}

// transformers puts an object in place of the type, with the one method of it that is of use.
class DictType final : public Object {
 public:
  std::string type_name() const override { return "TemplateDict"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override {
    return Value::dict(build_dict(interpreter, std::move(arguments)));
  }
  std::optional<Value> attribute(Interpreter&, std::string_view name) override {
    if (name != "fromkeys") return std::nullopt;
    return Value::object(std::make_shared<Function>("fromkeys", from_keys));
  }
};

Value make_namespace(Interpreter& interpreter, const Value&, Arguments arguments) {
  auto space = std::make_unique<Namespace>();
  const Dict attributes = build_dict(interpreter, std::move(arguments));
  for (const auto& [name, value] : attributes.entries()) space->set(name, value);
  return interpreter.own(std::move(space));
}

// Owned by the interpreter, as its methods refer to it.
class Cycler final : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(Value::tuple(std::move(items))) {}
  std::string type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Interpreter&, std::string_view name) override {
    if (name == "current") return items_.items()[at_];
    if (name == "items") return items_;
    if (name == "pos") return Value::integer(static_cast<Integer>(at_));
    const auto method = [&](const char* method_name, Function::Body body) {
      return Value::object(std::make_shared<Function>(
          method_name, body, Value::object(std::shared_ptr<Object>(std::shared_ptr<Object>(), this))));
    };
    if (name == "next") return method("next", next);
    if (name == "reset") return method("reset", reset);
    return std::nullopt;
  }

 private:
  static Value next(Interpreter&, const Value& self, Arguments) {
    auto& cycler = dynamic_cast<Cycler&>(self.as_object());
    Value item = cycler.items_.items()[cycler.at_];
    cycler.at_ = (cycler.at_ + 1) % cycler.items_.items().size();
    return item;
  }
  static Value reset(Interpreter&, const Value& self, Arguments) {
    dynamic_cast<Cycler&>(self.as_object()).at_ = 0;
    return Value::none();
  }

  Value items_;
  size_t at_ = 0;
};

Value make_cycler(Interpreter& interpreter, const Value&, Arguments arguments) {
  if (!arguments.keywords.empty()) fail("cycler() got an unexpected keyword argument");
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  return interpreter.own(std::make_unique<Cycler>(std::move(arguments.positional)));
}

class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter&, Arguments) override {
    return std::exchange(is_used_, true) ? separator_ : Value::string("");
  }

 private:
  Value separator_;
  bool is_used_ = false;
};

Value make_joiner(Interpreter& interpreter, const Value&, Arguments arguments) {
  const Bound bound("joiner", {"sep"}, 0, std::move(arguments));
  return interpreter.own(std::make_unique<Joiner>(bound.get(0, Value::string(", "))));
}

Value raise_exception(Interpreter& interpreter, const Value&, Arguments arguments) {
  const Bound bound("raise_exception", {"message"}, 1, std::move(arguments));
  fail(TemplateError::Kind::kRaised, to_text(bound[0], interpreter).bytes());
}

Value strftime_now(Interpreter& interpreter, const Value&, Arguments arguments) {
  const Bound bound("strftime_now", {"format"}, 1, std::move(arguments));
  return Value::string(interpreter.clock()(bound.text(0).bytes()));
}

Value lipsum(Interpreter&, const Value&, Arguments) {
  fail_unsupported("lipsum is random, and not supported");
}

struct Global {
  std::string_view name;
  Function::Body body;
};
constexpr Global kGlobals[] = {
    {"range", make_range},   {"namespace", make_namespace},        {"cycler", make_cycler},
    {"joiner", make_joiner}, {"raise_exception", raise_exception}, {"strftime_now", strftime_now},
    {"lipsum", lipsum},
};

// self.name() renders a block again.
class Self final : public Object {
 public:
  std::string type_name() const override { return "TemplateReference"; }
  std::optional<Value> attribute(Interpreter&, std::string_view name) override {
    if (name.starts_with('_')) return std::nullopt;
    return Value::object(std::make_shared<Function>(
        std::string(name),
        [](Interpreter& interpreter, const Value& self, Arguments) {
          return interpreter.run_block(self.text().view());
        },
        Value::string(name)));
  }
};

}  // namespace

bool is_global(std::string_view name) {
  if (name == "dict") return true;
  for (const Global& global : kGlobals) {
    if (global.name == name) return true;
  }
  return false;
}

std::optional<Value> find_global(std::string_view name) {
  if (name == "dict") return Value::object(std::make_shared<DictType>());
  for (const Global& global : kGlobals) {
    if (global.name == name) return Value::object(std::make_shared<Function>(std::string(name), global.body));
  }
  return std::nullopt;
}

std::unique_ptr<Object> make_self() {
  return std::make_unique<Self>();
}

}  // namespace unspool::jinja
