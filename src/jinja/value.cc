#include "jinja/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/object.h"
#include "jinja/operations.h"
#include "jinja/template_error.h"

namespace unspool::jinja {
namespace {

// Up to here a look at every key is faster than a hash.
constexpr size_t kSmallDict = 8;

int around(int nesting) {
  if (nesting >= kMaxNesting) fail(TemplateError::Kind::kLimit, "values are nested too deep");
  return nesting + 1;
}

std::shared_ptr<const Sequence> make_sequence(std::vector<Value> items) {
  int nesting = 0;
  for (const Value& item : items) nesting = std::max(nesting, item.nesting());
  return std::make_shared<Sequence>(Sequence{std::move(items), around(nesting)});
}

}  // namespace

Integer Range::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Value Value::string(Text text, bool is_markup) {
  return Value(Payload(std::shared_ptr<const String>(std::make_shared<String>(String{std::move(text), is_markup}))));
}

Value Value::list(std::vector<Value> items) {
  return Value(Payload(SequencePayload(make_sequence(std::move(items)), false)));
}

Value Value::tuple(std::vector<Value> items) {
  return Value(Payload(SequencePayload(make_sequence(std::move(items)), true)));
}

Value Value::dict(Dict dict) {
  return Value(Payload(std::shared_ptr<const Dict>(std::make_shared<Dict>(std::move(dict)))));
}

Value Value::dict_view(std::shared_ptr<const Dict> dict, DictPart part) {
  return Value(Payload(DictViewPayload(std::move(dict), part)));
}

Value Value::range(Range range) {
  return Value(Payload(std::shared_ptr<const Range>(std::make_shared<Range>(range))));
}

Value Value::iterator(const Value& source, std::function<std::optional<Value>()> next) {
  return Value(Payload(std::make_shared<Iterator>(Iterator{std::move(next), around(source.nesting())})));
}

Value Value::undefined(std::string message) {
  return Value(Payload(std::shared_ptr<const Undefined>(std::make_shared<Undefined>(Undefined{std::move(message)}))));
}

Value Value::undefined_name(std::string_view name) {
  return undefined(fmt::format("'{}' is undefined", name));
}

bool Value::is_same(const Value& other) const {
  if (payload_.index() != other.payload_.index()) return false;
  return std::visit(
      [&]<class T>(const T& mine) {
        if constexpr (std::is_same_v<T, None>) {
          return true;
        } else {
          return mine == std::get<T>(other.payload_);
        }
      },
      payload_);
}

int Value::nesting() const {
  if (is_sequence()) return std::get<SequencePayload>(payload_).first->nesting;
  if (is_dict()) return as_dict().nesting();
  if (is_dict_view()) return viewed_dict().nesting();
  if (is_iterator()) return as_iterator().nesting;
  if (is_object()) return as_object().nesting();
  return 0;
}

size_t Dict::position(const Value& key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key_text(key));
    return found == index_.end() ? entries_.size() : found->second;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (equal(entries_[i].first, key)) return i;
  }
  return entries_.size();
}

void Dict::set(Value key, Value value) {
  check_hashable(key);
  nesting_ = std::max({nesting_, around(key.nesting()), around(value.nesting())});
  const size_t at = position(key);
  if (at < entries_.size()) {
    entries_[at].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kSmallDict) return;
  for (size_t i = index_.empty() ? 0 : at; i <= at; ++i) index_.emplace(key_text(entries_[i].first), i);
}

const Value* Dict::find(const Value& key) const {
  check_hashable(key);
  const size_t at = position(key);
  return at < entries_.size() ? &entries_[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) return find(Value::string(key));
  for (const auto& [name, value] : entries_) {
    if (name.is_string() && name.text().view() == key) return &value;
  }
  return nullptr;
}

}  // namespace unspool::jinja
