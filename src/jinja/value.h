// Values of a template, with Python's types.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/text.h"

namespace unspool::jinja {

class Value;
class Dict;
class Object;

// Python's integers are unbounded. 128 bits hold everything that JSON brings here and the products of it; beyond is an
// error, never a wrong number.
__extension__ typedef __int128 Integer;

struct String {
  Text text;
  bool is_markup = false;  // markupsafe's Markup: the result of `safe` and `escape`
};

// Lists and tuples never change once made: the sandbox refuses the methods that would.
struct Sequence {
  std::vector<Value> items;
  int nesting;
};

struct Range {
  Integer start;
  Integer stop;
  Integer step;
  Integer size() const;
  Integer at(Integer index) const { return start + index * step; }
};

enum class DictPart : uint8_t { kKeys, kValues, kItems };

// A generator: what it yields can be taken once, and is computed when taken.
struct Iterator {
  std::function<std::optional<Value>()> next;
  int nesting;
};

// How deep values may hold one another. Printing, comparing and freeing recurse this deep; what JSON brings is at most
// 1024 deep (json.h).
inline constexpr int kMaxNesting = 1100;

class Value {
 public:
  struct Undefined {
    std::string message;  // of the error that using it raises
  };
  struct None {};
  using Payload =
      std::variant<None, bool, Integer, double, std::shared_ptr<const Undefined>, std::shared_ptr<const String>,
                   std::shared_ptr<const Dict>, std::shared_ptr<Iterator>, std::shared_ptr<Object>,
                   std::shared_ptr<const Range>, std::pair<std::shared_ptr<const Sequence>, bool>,
                   std::pair<std::shared_ptr<const Dict>, DictPart>>;

  Value() = default;
  static Value none() { return {}; }
  static Value boolean(bool value) { return Value(Payload(value)); }
  static Value integer(Integer value) { return Value(Payload(value)); }
  static Value number(double value) { return Value(Payload(value)); }
  static Value string(Text text, bool is_markup = false);
  // Text that the engine or the template makes.
  static Value string(std::string_view bytes) { return string(Text(std::string(bytes))); }
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value dict(Dict dict);
  static Value dict_view(std::shared_ptr<const Dict> dict, DictPart part);
  static Value range(Range range);
  // `source` is what `next` takes its items from.
  static Value iterator(const Value& source, std::function<std::optional<Value>()> next);
  static Value object(std::shared_ptr<Object> object) { return Value(Payload(std::move(object))); }
  static Value undefined(std::string message);
  // The undefined of a variable that was never set.
  static Value undefined_name(std::string_view name);

  bool is_none() const { return holds<None>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_integer() const { return holds<Integer>(); }
  bool is_float() const { return holds<double>(); }
  bool is_undefined() const { return holds<std::shared_ptr<const Undefined>>(); }
  bool is_string() const { return holds<std::shared_ptr<const String>>(); }
  bool is_markup() const { return is_string() && as_string().is_markup; }
  bool is_sequence() const { return holds<std::pair<std::shared_ptr<const Sequence>, bool>>(); }
  bool is_list() const { return is_sequence() && !std::get<SequencePayload>(payload_).second; }
  bool is_tuple() const { return is_sequence() && std::get<SequencePayload>(payload_).second; }
  bool is_dict() const { return holds<std::shared_ptr<const Dict>>(); }
  bool is_dict_view() const { return holds<DictViewPayload>(); }
  bool is_range() const { return holds<std::shared_ptr<const Range>>(); }
  bool is_iterator() const { return holds<std::shared_ptr<Iterator>>(); }
  bool is_object() const { return holds<std::shared_ptr<Object>>(); }

  bool as_bool() const { return std::get<bool>(payload_); }
  double as_float() const { return std::get<double>(payload_); }
  const std::string& undefined_message() const { return std::get<std::shared_ptr<const Undefined>>(payload_)->message; }
  const String& as_string() const { return *std::get<std::shared_ptr<const String>>(payload_); }
  const Text& text() const { return as_string().text; }
  const std::vector<Value>& items() const { return std::get<SequencePayload>(payload_).first->items; }
  const Dict& as_dict() const { return *std::get<std::shared_ptr<const Dict>>(payload_); }
  const std::shared_ptr<const Dict>& shared_dict() const { return std::get<std::shared_ptr<const Dict>>(payload_); }
  const Dict& viewed_dict() const { return *std::get<DictViewPayload>(payload_).first; }
  DictPart dict_part() const { return std::get<DictViewPayload>(payload_).second; }
  const Range& as_range() const { return *std::get<std::shared_ptr<const Range>>(payload_); }
  Iterator& as_iterator() const { return *std::get<std::shared_ptr<Iterator>>(payload_); }
  Object& as_object() const { return *std::get<std::shared_ptr<Object>>(payload_); }

  // Python's integers include its booleans.
  std::optional<Integer> as_integer() const {
    if (is_integer()) return std::get<Integer>(payload_);
    if (is_bool()) return as_bool() ? 1 : 0;
    return std::nullopt;
  }
  // Any number as a float.
  std::optional<double> as_number() const {
    if (is_float()) return as_float();
    if (const auto integer = as_integer()) return static_cast<double>(*integer);
    return std::nullopt;
  }

  // What `is` compares: the object, or the value where Python has one object for it.
  bool is_same(const Value& other) const;
  // How deep values lie inside this one; 0 for those that hold none.
  int nesting() const;

 private:
  using SequencePayload = std::pair<std::shared_ptr<const Sequence>, bool>;
  using DictViewPayload = std::pair<std::shared_ptr<const Dict>, DictPart>;
  explicit Value(Payload payload) : payload_(std::move(payload)) {}
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(payload_);
  }

  Payload payload_;
};

// A mapping in the order of insertion. Built once, then only read.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  // A key that is there keeps its place and takes the new value, as in Python. The key must be hashable.
  void set(Value key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int nesting() const { return nesting_; }

 private:
  size_t position(const Value& key) const;

  std::vector<Entry> entries_;
  // key_text to position; empty while the dict is small. Ordered, since hashes of a client's keys can be made to
  // collide.
  std::map<std::string, size_t> index_;
  int nesting_ = 0;
};

}  // namespace unspool::jinja
