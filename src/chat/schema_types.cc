#include "chat/schema_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "chat/tool_format.h"
#include "jinja/python_number.h"
#include "jinja/template_error.h"

namespace unspool::chat {
namespace {

using Kind = PythonJson::Kind;

void add_type(std::vector<std::string>& types, std::string_view type) {
  if (std::ranges::find(types, type) == types.end()) types.emplace_back(type);
}

std::string_view type_of(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kFalse:
    case Kind::kTrue:
      return "boolean";
    case Kind::kInteger:
      return "integer";
    case Kind::kFloat:
      return "number";
    case Kind::kString:
      return "string";
    case Kind::kArray:
      return "array";
    case Kind::kObject:
      return "object";
  }
  return "string";
}

// Recursion is as deep as the schema is nested, which is bounded by json.h.
void collect_types(const PythonJson& schema, std::vector<std::string>& types) {
  const size_t before = types.size();
  bool added = false;
  const auto add = [&](std::string_view type) {
    add_type(types, type);
    added = true;
  };
  if (schema.is_object()) {
    if (const PythonJson* const type = schema.find("type")) {
      if (type->is_string()) add(type->text);
      if (type->is_array()) {
        for (const PythonJson& item : type->items) {
          if (item.is_string()) add(item.text);
        }
      }
    }
    const PythonJson* const values = schema.find("enum");
    if (values != nullptr && values->is_array()) {
      for (const PythonJson& value : values->items) add(type_of(value.kind));
    }
    for (const std::string_view choices : {"anyOf", "oneOf", "allOf"}) {
      const PythonJson* const schemas = schema.find(choices);
      if (schemas == nullptr || !schemas->is_array()) continue;
      for (const PythonJson& choice : schemas->items) {
        collect_types(choice, types);
        added = true;
      }
    }
  }
  if (!added && types.size() == before) add_type(types, "string");
}

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return out;
}

// Names that models' authors write for JSON's types.
constexpr std::array<std::pair<std::string_view, std::string_view>, 23> kAliases{{
    {"str", "string"},     {"text", "string"},    {"varchar", "string"}, {"char", "string"},      {"enum", "string"},
    {"int", "integer"},    {"int32", "integer"},  {"int64", "integer"},  {"uint", "integer"},     {"uint32", "integer"},
    {"uint64", "integer"}, {"long", "integer"},   {"short", "integer"},  {"unsigned", "integer"}, {"float", "number"},
    {"float32", "number"}, {"float64", "number"}, {"double", "number"},  {"bool", "boolean"},     {"dict", "object"},
    {"arr", "array"},      {"list", "array"},     {"sequence", "array"},
}};

bool has_type(const std::vector<std::string>& types, std::string_view wanted) {
  return std::ranges::any_of(types, [wanted](const std::string& type) {
    const std::string name = lower_ascii(strip(type));
    const auto alias = std::ranges::find(kAliases, name, &std::pair<std::string_view, std::string_view>::first);
    return (alias == kAliases.end() ? std::string_view(name) : alias->second) == wanted;
  });
}

// int(text): digits, single underscores among them, a sign, space around. nullopt where Python raises.
std::optional<PythonJson> as_integer(std::string_view text) {
  text = strip(text);
  std::string digits;
  if (text.starts_with('-')) digits += '-';
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  bool after_digit = false;
  const size_t sign = digits.size();
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c != '_' || !after_digit)) return std::nullopt;
    after_digit = is_digit;
    if (is_digit && (c != '0' || digits.size() > sign)) digits += c;
  }
  if (!after_digit) return std::nullopt;
  if (digits.size() == sign) digits += '0';
  return read_number(digits);
}

// float(text), and an integer where it has no fraction.
std::optional<PythonJson> as_number(std::string_view text) {
  text = strip(text);
  // Digits of other scripts are numbers to Python too, but nothing that a model writes for one.
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) return std::nullopt;
  std::optional<double> value;
  try {
    value = jinja::parse_float(text);
  } catch (const jinja::Fault&) {
    return std::nullopt;
  }
  if (!value || !std::isfinite(*value)) return std::nullopt;
  if (*value == std::trunc(*value)) return PythonJson::integer(*value == 0 ? "0" : fmt::format("{:.0f}", *value));
  return PythonJson{Kind::kFloat, dump_python_json(*read_number(fmt::format("{}", *value))), {}, {}};
}

std::optional<PythonJson> as_boolean(std::string_view text) {
  const std::string lower = lower_ascii(strip(text));
  if (lower == "true" || lower == "1") return PythonJson::boolean(true);
  if (lower == "false" || lower == "0") return PythonJson::boolean(false);
  return std::nullopt;
}

bool is_finite(const PythonJson& value) {
  if (value.kind == Kind::kFloat) return value.text.find_first_of("NI") == std::string::npos;
  return std::ranges::all_of(value.items, is_finite);
}

// NaN and infinities cannot be written as JSON again.
std::optional<PythonJson> as_json(std::string_view text) {
  auto value = parse_python_json(text);
  return value && is_finite(*value) ? std::move(value) : std::nullopt;
}

bool coerce_value(PythonJson& value, const PythonJson& schema);

bool coerce_items(PythonJson& array, const PythonJson& schema) {
  const PythonJson* const items = schema.find("items");
  if (items == nullptr || !items->is_object()) return false;
  bool changed = false;
  for (PythonJson& item : array.items) changed = coerce_value(item, *items) || changed;
  return changed;
}

bool coerce_value(PythonJson& value, const PythonJson& schema) {
  if (value.is_object()) {
    const PythonJson* const properties = schema.find("properties");
    return properties != nullptr && properties->is_object() && coerce_arguments(value, *properties);
  }
  if (value.is_array()) return coerce_items(value, schema);
  PythonJson coerced = coerce_text(value.is_string() ? value.text : dump_python_json(value), types_of_schema(schema));
  if (coerced == value) return false;
  value = std::move(coerced);
  return true;
}

}  // namespace

std::vector<std::string> types_of_schema(const PythonJson& schema) {
  std::vector<std::string> types;
  collect_types(schema, types);
  return types;
}

PythonJson coerce_text(std::string_view text, const std::vector<std::string>& types) {
  if (has_type(types, "null") && lower_ascii(text) == "null") return {};
  if (has_type(types, "integer")) {
    if (auto value = as_integer(text)) return std::move(*value);
  }
  if (has_type(types, "number")) {
    if (auto value = as_number(text)) return std::move(*value);
  }
  if (has_type(types, "boolean")) {
    if (auto value = as_boolean(text)) return std::move(*value);
  }
  if (has_type(types, "object") || has_type(types, "array")) {
    if (auto value = as_json(text)) return std::move(*value);
  }
  if (has_type(types, "string")) return PythonJson::string(std::string(text));
  return as_json(text).value_or(PythonJson::string(std::string(text)));
}

bool coerce_arguments(PythonJson& arguments, const PythonJson& properties) {
  bool changed = false;
  for (size_t i = 0; i < arguments.items.size(); ++i) {
    const PythonJson* const schema = properties.find(arguments.keys[i]);
    if (schema == nullptr || !schema->is_object()) continue;
    changed = coerce_value(arguments.items[i], *schema) || changed;
  }
  return changed;
}

}  // namespace unspool::chat
