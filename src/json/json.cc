#include "json/json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <type_traits>

#include "json/json_writer.h"
#include "json/syntax_error.h"

namespace unspool {
namespace {

namespace dom = simdjson::dom;

// simdjson saturates the element count it stores at 24 bits; beyond that the elements are counted one by one.
constexpr size_t kSaturatedCount = 0xFFFFFF;

template <class Container>
size_t count(const Container& container) {
  const size_t size = container.size();
  return size < kSaturatedCount ? size : static_cast<size_t>(std::distance(container.begin(), container.end()));
}

// Recursion is bounded by kMaxJsonDepth, which parsing enforced.
void write(JsonWriter& writer, dom::element element) {
  switch (element.type()) {
    case dom::element_type::ARRAY:
      writer.begin_array();
      for (dom::element item : dom::array(element)) write(writer, item);
      writer.end_array();
      return;
    case dom::element_type::OBJECT:
      writer.begin_object();
      for (dom::key_value_pair member : dom::object(element)) {
        writer.key(member.key);
        write(writer, member.value);
      }
      writer.end_object();
      return;
    case dom::element_type::INT64:
      writer.integer(int64_t(element));
      return;
    case dom::element_type::UINT64:
      writer.raw(fmt::format_int(uint64_t(element)).str());
      return;
    case dom::element_type::DOUBLE:
      writer.number(double(element));
      return;
    case dom::element_type::STRING:
      writer.string(std::string_view(element));
      return;
    case dom::element_type::BOOL:
      writer.boolean(bool(element));
      return;
    case dom::element_type::NULL_VALUE:
      writer.null();
      return;
  }
}

bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// An integer of no 64 bits gets a fraction, by which it is parsed as a double. Empty where there is none. Python has
// such integers: an unset length in a tokenizer's configuration is 10^30.
std::string with_large_integers_as_doubles(std::string_view text) {
  std::string out;
  size_t copied = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && is_number_char(text[i])) ++i;
    if (i == begin) {
      ++i;
      continue;
    }
    const std::string_view number = text.substr(begin, i - begin);
    const std::string_view digits = number.substr(number[0] == '-' ? 1 : 0);
    constexpr size_t kFitsAlways = 18;  // digits
    if (digits.size() <= kFitsAlways || digits.find_first_not_of("0123456789") != digits.npos) continue;
    int64_t fits_signed = 0;
    uint64_t fits_unsigned = 0;
    const char* end = number.data() + number.size();
    if (std::from_chars(number.data(), end, fits_signed).ec == std::errc() ||
        std::from_chars(number.data(), end, fits_unsigned).ec == std::errc())
      continue;
    out.append(text, copied, i - copied);
    out += ".0";
    copied = i;
  }
  if (!out.empty()) out.append(text, copied);
  return out;
}

simdjson::error_code parse_text(std::string_view text, dom::document& document) {
  // A parser for each document: its buffers are as large as the text and must not outlive a rare huge body.
  dom::parser parser;
  const simdjson::error_code code = parser.allocate(std::max<size_t>(text.size(), 32), kMaxJsonDepth);
  if (code != simdjson::SUCCESS) return code;
  // The parser copies the text into its own padded buffer, so any view will do, and `text` may die afterwards.
  return parser.parse_into_document(document, text.data(), text.size()).error();
}

}  // namespace

struct JsonDocument::Impl {
  dom::document document;
};

JsonDocument::JsonDocument() : impl_(std::make_unique<Impl>()) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

Result<JsonDocument> JsonDocument::parse(std::string_view text, JsonSyntaxError* syntax_error) {
  // Python's json.loads drops a byte order mark from bytes, and its positions start after it.
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);

  JsonDocument document;
  simdjson::error_code code = parse_text(text, document.impl_->document);
  if (code == simdjson::NUMBER_ERROR) {
    if (const std::string fitting = with_large_integers_as_doubles(text); !fitting.empty())
      code = parse_text(fitting, document.impl_->document);
  }
  if (code == simdjson::SUCCESS) return document;

  if (code == simdjson::CAPACITY || code == simdjson::MEMALLOC) {
    const JsonSyntaxError error{0, "Text too long"};
    if (syntax_error != nullptr) *syntax_error = error;
    return invalid_argument(fmt::format("invalid JSON: {}", error.message));
  }
  JsonSyntaxError error = find_json_syntax_error(text);
  Error result = invalid_argument(fmt::format("invalid JSON: {} (char {})", error.message, error.position));
  if (syntax_error != nullptr) *syntax_error = std::move(error);
  return result;
}

JsonValue JsonDocument::root() const {
  const dom::element root = impl_->document.root();
  return JsonValue::view(&root);
}

JsonValue::JsonValue() = default;

namespace {

// JsonValue holds an element as bytes, so that no simdjson type leaves this file. A value without one stands for an
// absent member and reads as null.
std::optional<dom::element> element_of(bool has, const unsigned char* bytes) {
  static_assert(sizeof(dom::element) == 16 && std::is_trivially_copyable_v<dom::element>);
  if (!has) return std::nullopt;
  dom::element element;
  std::memcpy(static_cast<void*>(&element), bytes, sizeof(element));
  return element;
}

template <class T>
std::optional<T> get(const std::optional<dom::element>& element) {
  T value;
  if (!element || element->get(value) != simdjson::SUCCESS) return std::nullopt;
  return value;
}

}  // namespace

JsonType JsonValue::type() const {
  const auto element = element_of(has_, raw_.bytes);
  if (!element) return JsonType::kNull;
  switch (element->type()) {
    case dom::element_type::ARRAY:
      return JsonType::kArray;
    case dom::element_type::OBJECT:
      return JsonType::kObject;
    case dom::element_type::INT64:
      return JsonType::kInteger;
    case dom::element_type::UINT64:
      return JsonType::kUnsigned;
    case dom::element_type::DOUBLE:
      return JsonType::kDouble;
    case dom::element_type::STRING:
      return JsonType::kString;
    case dom::element_type::BOOL:
      return JsonType::kBool;
    case dom::element_type::NULL_VALUE:
      break;
  }
  return JsonType::kNull;
}

std::optional<bool> JsonValue::as_bool() const {
  return get<bool>(element_of(has_, raw_.bytes));
}

std::optional<int64_t> JsonValue::as_int64() const {
  return get<int64_t>(element_of(has_, raw_.bytes));
}

std::optional<double> JsonValue::as_double() const {
  return get<double>(element_of(has_, raw_.bytes));
}

std::optional<std::string_view> JsonValue::as_string() const {
  return get<std::string_view>(element_of(has_, raw_.bytes));
}

size_t JsonValue::size() const {
  const auto element = element_of(has_, raw_.bytes);
  if (const auto array = get<dom::array>(element)) return count(*array);
  if (const auto object = get<dom::object>(element)) return count(*object);
  return 0;
}

JsonValue JsonValue::view(const void* element) {
  JsonValue value;
  std::memcpy(value.raw_.bytes, element, sizeof(value.raw_.bytes));
  value.has_ = true;
  return value;
}

std::vector<JsonValue> JsonValue::elements() const {
  std::vector<JsonValue> elements;
  if (const auto array = get<dom::array>(element_of(has_, raw_.bytes))) {
    elements.reserve(array->size());
    for (const dom::element item : *array) elements.push_back(view(&item));
  }
  return elements;
}

std::vector<std::pair<std::string_view, JsonValue>> JsonValue::members() const {
  std::vector<std::pair<std::string_view, JsonValue>> members;
  if (const auto object = get<dom::object>(element_of(has_, raw_.bytes))) {
    members.reserve(object->size());
    for (const dom::key_value_pair member : *object) members.emplace_back(member.key, view(&member.value));
  }
  return members;
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  std::optional<JsonValue> found;
  if (const auto object = get<dom::object>(element_of(has_, raw_.bytes))) {
    for (auto it = object->begin(); it != object->end(); ++it) {
      if (!it.key_equals(key)) continue;
      const dom::element element = it.value();
      found = view(&element);
    }
  }
  return found;
}

JsonValue JsonValue::operator[](std::string_view key) const {
  return find(key).value_or(JsonValue());
}

std::optional<std::vector<int64_t>> JsonValue::as_int64_array() const {
  const auto array = get<dom::array>(element_of(has_, raw_.bytes));
  if (!array) return std::nullopt;
  std::vector<int64_t> values;
  values.reserve(array->size());
  for (const dom::element item : *array) {
    int64_t value;
    if (item.get(value) != simdjson::SUCCESS) return std::nullopt;
    values.push_back(value);
  }
  return values;
}

std::string JsonValue::dump() const {
  JsonWriter writer;
  if (const auto element = element_of(has_, raw_.bytes)) {
    write(writer, *element);
  } else {
    writer.null();
  }
  return std::move(writer).str();
}

}  // namespace unspool
