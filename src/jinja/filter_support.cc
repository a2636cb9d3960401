#include "jinja/filter_support.h"

#include <algorithm>
#include <numeric>

#include "jinja/characters.h"
#include "jinja/string_search.h"

namespace unspool::jinja {

Value soft_string(Interpreter& interpreter, const Value& value) {
  return value.is_string() ? value : Value::string(to_text(value, interpreter));
}

std::vector<Value> attribute_parts(const Value& attribute) {
  if (attribute.is_none()) return {};
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> parts;
  for (Text& part : split(attribute.text(), ".", -1, false)) {
    const auto index = parse_integer(part.view(), 10);
    parts.push_back(index ? Value::integer(*index) : Value::string(std::move(part)));
  }
  return parts;
}

Value attribute_of(Interpreter& interpreter, const Value& item, const std::vector<Value>& parts,
                   const std::optional<Value>& otherwise) {
  Value value = item;
  for (const Value& part : parts) {
    interpreter.budget().spend();
    value = get_item(value, part, interpreter);
    if (otherwise && value.is_undefined()) value = *otherwise;
  }
  return value;
}

Value ignore_case(const Value& value) {
  return value.is_string() ? Value::string(lower(value.text())) : value;
}

std::vector<Value> sorted(Interpreter& interpreter, std::vector<Value> values,
                          const std::function<Value(const Value&)>& key, bool reverse) {
  std::vector<Value> keys;
  keys.reserve(values.size());
  for (const Value& value : values) keys.push_back(key(value));
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // A merge of our own: std::sort may run wild where `less` is no order (nan), and reverse keeps equals in place.
  std::vector<size_t> merged(order.size());
  const auto before = [&](size_t a, size_t b) {
    interpreter.budget().spend();
    return less(keys[a], keys[b], "<", interpreter.budget());
  };
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size());
      const size_t end = std::min(begin + 2 * width, order.size());
      size_t left = begin;
      size_t right = middle;
      for (size_t at = begin; at < end; ++at) {
        const bool take_right =
            left == middle ||
            (right < end && (reverse ? before(order[left], order[right]) : before(order[right], order[left])));
        merged[at] = take_right ? order[right++] : order[left++];
      }
    }
    order.swap(merged);
  }
  std::vector<Value> out;
  out.reserve(values.size());
  for (const size_t i : order) out.push_back(std::move(values[i]));
  return out;
}

}  // namespace unspool::jinja
