#include "jinja/iteration.h"

#include <fmt/format.h>

#include "jinja/interpreter.h"
#include "jinja/loop.h"
#include "jinja/operations.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

Value entry_part(const Dict::Entry& entry, DictPart part) {
  switch (part) {
    case DictPart::kKeys:
      return entry.first;
    case DictPart::kValues:
      return entry.second;
    case DictPart::kItems:
      break;
  }
  return Value::tuple({entry.first, entry.second});
}

}  // namespace

bool is_iterable(const Value& value) {
  return value.is_string() || value.is_sequence() || value.is_dict() || value.is_dict_view() || value.is_range() ||
         value.is_iterator() || value.is_undefined() || as_loop(value) != nullptr;
}

Iteration::Iteration(Value value, Interpreter& interpreter) : value_(std::move(value)), interpreter_(interpreter) {
  if (!is_iterable(value_)) fail(fmt::format("'{}' object is not iterable", type_name(value_)));
}

std::optional<Value> Iteration::next() {
  interpreter_.budget().spend();
  return take();
}

std::optional<Value> Iteration::take() {
  if (value_.is_sequence()) {
    if (at_ >= value_.items().size()) return std::nullopt;
    return value_.items()[at_++];
  }
  if (value_.is_dict()) {
    if (at_ >= value_.as_dict().size()) return std::nullopt;
    return value_.as_dict().entries()[at_++].first;
  }
  if (value_.is_dict_view()) {
    if (at_ >= value_.viewed_dict().size()) return std::nullopt;
    return entry_part(value_.viewed_dict().entries()[at_++], value_.dict_part());
  }
  if (value_.is_string()) {
    const Text& text = value_.text();
    if (at_ >= text.size()) return std::nullopt;
    const size_t begin = at_;
    at_ += unicode::decode(text.view(), at_).size_bytes;
    return Value::string(text.slice(begin, at_));  // of Markup too, str.__iter__
  }
  if (value_.is_range()) {
    const Range& range = value_.as_range();
    if (static_cast<Integer>(at_) >= range.size()) return std::nullopt;
    return Value::integer(range.at(static_cast<Integer>(at_++)));
  }
  if (value_.is_iterator()) {
    const Budget::Level level(interpreter_.budget());
    return value_.as_iterator().next();
  }
  if (Loop* const loop = as_loop(value_)) {
    std::optional<Value> item = loop->advance();
    if (!item) return std::nullopt;
    return Value::tuple({*std::move(item), value_});
  }
  return std::nullopt;  // undefined
}

std::vector<Value> to_vector(const Value& value, Interpreter& interpreter) {
  if (value.is_sequence()) {
    interpreter.budget().spend(static_cast<int64_t>(value.items().size()));
    return value.items();
  }
  std::vector<Value> items;
  Iteration iteration(value, interpreter);
  while (std::optional<Value> item = iteration.next()) items.push_back(*std::move(item));
  return items;
}

}  // namespace unspool::jinja
