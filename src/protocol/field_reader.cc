#include "protocol/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "protocol/python_text.h"

namespace unspool {
namespace {

constexpr size_t kMaxReportedErrors = 10;
constexpr int64_t kMaxInputChars = 200;
constexpr int64_t kMaxErrorChars = 1000;

std::string cut(std::string text, int64_t characters) {
  if (python::length(text) <= characters) return text;
  return std::string(python::first_characters(text, characters)) + "...[truncated]";
}

std::string render(const FieldError& error) {
  std::string out = fmt::format("{{'type': {}, 'loc': {}, 'msg': {}, 'input': {}",
                                python::repr(std::string_view(error.type)), python::repr(std::string_view(error.loc)),
                                python::repr(std::string_view(error.msg)), python::repr(std::string_view(error.input)));
  if (!error.ctx.empty()) out += ", 'ctx': " + error.ctx;
  return cut(out + "}", kMaxErrorChars);
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c | 0x20) : c; });
  return out;
}

bool is_list(const JsonValue& value, const std::string& loc, FieldErrors& errors) {
  if (value.is_array()) return true;
  errors.add({"list_type", loc, "Input should be a valid list", describe_input(value), {}});
  return false;
}

// pydantic takes "5.0" for an int as well.
std::optional<int64_t> int_of_text(std::string_view text) {
  if (const auto value = python::parse_int(text)) return value;
  const size_t end = text.find_last_not_of(" \t\n\r");
  if (end == std::string_view::npos) return std::nullopt;
  text = text.substr(0, end + 1);
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || text.find_first_not_of('0', dot + 1) != std::string_view::npos)
    return std::nullopt;
  return python::parse_int(text.substr(0, dot));
}

}  // namespace

void FieldErrors::add(FieldError error) {
  if (kept_.size() < kMaxReportedErrors) kept_.push_back(std::move(error));
  ++count_;
}

void FieldErrors::append(const FieldErrors& other) {
  for (const FieldError& error : other.kept_) add(error);
  count_ += other.count_ - other.kept_.size();
}

ApiError FieldErrors::to_api_error() const {
  const char* label = count_ == 1 ? "error" : "errors";
  std::string message = fmt::format("{} validation {}:", count_, label);
  for (const FieldError& error : kept_) message += "\n  " + render(error);
  if (count_ > kept_.size()) message += fmt::format("\n  ...and {} more {}", count_ - kept_.size(), label);
  return framework_error(std::move(message), kept_.empty() ? "" : kept_.front().loc);
}

std::string describe_input(const JsonValue& value) {
  switch (value.type()) {
    case JsonType::kNull:
      return "None";
    case JsonType::kBool:
      return *value.as_bool() ? "True" : "False";
    case JsonType::kInteger:
    case JsonType::kUnsigned:
      return value.dump();
    case JsonType::kDouble:
      return python::repr(*value.as_double());
    case JsonType::kString:
      return cut(std::string(*value.as_string()), kMaxInputChars);
    case JsonType::kArray:
      return fmt::format("<list of {} items>", value.size());
    case JsonType::kObject:
      break;
  }
  return fmt::format("<dict of {} items>", value.size());
}

std::optional<int64_t> coerce_int(const JsonValue& value, const std::string& loc, FieldErrors& errors, IntRange range) {
  const auto fail = [&](const char* type, std::string msg, std::string ctx = {}) {
    errors.add({type, loc, std::move(msg), describe_input(value), std::move(ctx)});
    return std::nullopt;
  };
  std::optional<int64_t> parsed;
  switch (value.type()) {
    case JsonType::kBool:
      parsed = *value.as_bool() ? 1 : 0;
      break;
    case JsonType::kInteger:
      parsed = value.as_int64();
      break;
    case JsonType::kUnsigned:
      parsed = value.as_int64();
      if (!parsed) {
        return fail("less_than_equal", fmt::format("Input should be less than or equal to {}", range.le),
                    fmt::format("{{'le': {}}}", range.le));
      }
      break;
    case JsonType::kDouble: {
      const double number = *value.as_double();
      if (std::trunc(number) != number) {
        return fail("int_from_float", "Input should be a valid integer, got a number with a fractional part");
      }
      if (std::abs(number) >= 0x1p63) {
        return fail("int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size");
      }
      parsed = static_cast<int64_t>(number);
      break;
    }
    case JsonType::kString:
      parsed = int_of_text(*value.as_string());
      if (!parsed) {
        return fail("int_parsing", "Input should be a valid integer, unable to parse string as an integer");
      }
      break;
    default:
      return fail("int_type", "Input should be a valid integer");
  }
  if (*parsed < range.ge) {
    return fail("greater_than_equal", fmt::format("Input should be greater than or equal to {}", range.ge),
                fmt::format("{{'ge': {}}}", range.ge));
  }
  if (*parsed > range.le) {
    return fail("less_than_equal", fmt::format("Input should be less than or equal to {}", range.le),
                fmt::format("{{'le': {}}}", range.le));
  }
  return parsed;
}

std::optional<double> coerce_number(const JsonValue& value, const std::string& loc, FieldErrors& errors) {
  if (value.is_number()) return value.as_double();
  if (value.is_bool()) return *value.as_bool() ? 1.0 : 0.0;
  if (!value.is_string()) {
    errors.add({"float_type", loc, "Input should be a valid number", describe_input(value), {}});
    return std::nullopt;
  }
  const auto parsed = python::parse_float(*value.as_string());
  if (!parsed) {
    errors.add({"float_parsing",
                loc,
                "Input should be a valid number, unable to parse string as a number",
                describe_input(value),
                {}});
  }
  return parsed;
}

std::optional<bool> coerce_bool(const JsonValue& value, const std::string& loc, FieldErrors& errors) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_number() && (*value.as_double() == 0.0 || *value.as_double() == 1.0)) return *value.as_double() == 1.0;
  if (value.is_string()) {
    const std::string text = lower(*value.as_string());
    for (const char* yes : {"1", "on", "t", "true", "y", "yes"}) {
      if (text == yes) return true;
    }
    for (const char* no : {"0", "off", "f", "false", "n", "no"}) {
      if (text == no) return false;
    }
  }
  if (value.is_string() || value.is_number()) {
    errors.add(
        {"bool_parsing", loc, "Input should be a valid boolean, unable to interpret input", describe_input(value), {}});
  } else {
    errors.add({"bool_type", loc, "Input should be a valid boolean", describe_input(value), {}});
  }
  return std::nullopt;
}

std::optional<std::string> coerce_string(const JsonValue& value, const std::string& loc, FieldErrors& errors) {
  if (const auto text = value.as_string()) return std::string(*text);
  errors.add({"string_type", loc, "Input should be a valid string", describe_input(value), {}});
  return std::nullopt;
}

std::optional<std::vector<int64_t>> coerce_int_list(const JsonValue& value, const std::string& loc, FieldErrors& errors,
                                                    IntRange range) {
  if (!is_list(value, loc, errors)) return std::nullopt;
  // Long prompts are integers already.
  if (auto plain = value.as_int64_array()) {
    const auto outside = [&](int64_t v) { return v < range.ge || v > range.le; };
    if (std::none_of(plain->begin(), plain->end(), outside)) return plain;
  }
  std::vector<int64_t> out;
  bool good = true;
  size_t index = 0;
  for (const JsonValue& element : value.elements()) {
    const auto parsed = coerce_int(element, fmt::format("{}.{}", loc, index++), errors, range);
    good = good && parsed.has_value();
    if (good) out.push_back(*parsed);
  }
  return good ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<std::vector<std::string>> coerce_string_list(const JsonValue& value, const std::string& loc,
                                                           FieldErrors& errors) {
  if (!is_list(value, loc, errors)) return std::nullopt;
  std::vector<std::string> out;
  bool good = true;
  size_t index = 0;
  for (const JsonValue& element : value.elements()) {
    auto parsed = coerce_string(element, fmt::format("{}.{}", loc, index++), errors);
    good = good && parsed.has_value();
    if (good) out.push_back(std::move(*parsed));
  }
  return good ? std::optional(std::move(out)) : std::nullopt;
}

bool truthy(const JsonValue& value) {
  switch (value.type()) {
    case JsonType::kNull:
      return false;
    case JsonType::kBool:
      return *value.as_bool();
    case JsonType::kInteger:
    case JsonType::kUnsigned:
    case JsonType::kDouble:
      return *value.as_double() != 0.0;
    case JsonType::kString:
      return !value.as_string()->empty();
    case JsonType::kArray:
    case JsonType::kObject:
      break;
  }
  return value.size() > 0;
}

FieldReader::FieldReader(JsonValue object, std::string loc, FieldErrors& errors)
    : object_(object), loc_(std::move(loc)), errors_(errors) {}

template <class T, class Coerce>
void FieldReader::read_optional(std::string_view name, std::optional<T>& out, Coerce coerce) {
  const auto value = find(name);
  if (!value) return;
  if (value->is_null()) {
    out.reset();
  } else if (auto parsed = coerce(*value, loc(name), errors_)) {
    out = std::move(parsed);
  }
}

template <class T, class Coerce>
void FieldReader::read_required(std::string_view name, T& out, Coerce coerce) {
  const auto value = find(name);
  if (!value) return;
  if (auto parsed = coerce(*value, loc(name), errors_)) out = std::move(*parsed);
}

void FieldReader::read(std::string_view name, int64_t& out, IntRange range) {
  read_required(name, out, [&](const auto& v, const auto& l, auto& e) { return coerce_int(v, l, e, range); });
}
void FieldReader::read(std::string_view name, std::optional<int64_t>& out, IntRange range) {
  read_optional(name, out, [&](const auto& v, const auto& l, auto& e) { return coerce_int(v, l, e, range); });
}
void FieldReader::read(std::string_view name, double& out) {
  read_required(name, out, coerce_number);
}
void FieldReader::read(std::string_view name, std::optional<double>& out) {
  read_optional(name, out, coerce_number);
}
void FieldReader::read(std::string_view name, bool& out) {
  read_required(name, out, coerce_bool);
}
void FieldReader::read(std::string_view name, std::optional<bool>& out) {
  read_optional(name, out, coerce_bool);
}
void FieldReader::read(std::string_view name, std::string& out) {
  read_required(name, out, coerce_string);
}
void FieldReader::read(std::string_view name, std::optional<std::string>& out) {
  read_optional(name, out, coerce_string);
}
void FieldReader::read(std::string_view name, std::optional<std::vector<int64_t>>& out, IntRange range) {
  read_optional(name, out, [&](const auto& v, const auto& l, auto& e) { return coerce_int_list(v, l, e, range); });
}
void FieldReader::read(std::string_view name, std::vector<std::string>& out) {
  read_required(name, out, coerce_string_list);
}
void FieldReader::read(std::string_view name, std::optional<std::vector<std::string>>& out) {
  read_optional(name, out, coerce_string_list);
}

void FieldReader::read_object(std::string_view name, std::optional<JsonValue>& out) {
  const auto value = find(name);
  if (!value || value->is_null()) return;
  if (value->is_object()) {
    out = *value;
  } else {
    errors_.add({"dict_type", loc(name), "Input should be a valid dictionary", describe_input(*value), {}});
  }
}

void FieldReader::missing(std::string_view name) {
  errors_.add({"missing", loc(name), "Field required", describe_input(object_), {}});
}

}  // namespace unspool
