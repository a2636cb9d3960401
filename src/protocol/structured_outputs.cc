#include "protocol/structured_outputs.h"

#include <fmt/format.h>

#include "json/json_writer.h"
#include "protocol/python_text.h"
#include "protocol/schema_limits.h"

namespace unspool {
namespace {

constexpr const char* kStructuredOutputs = "structured_outputs";
constexpr const char* kResponseFormat = "response_format";

// repr() of what json.loads() makes of the value.
std::string python_repr(const JsonValue& value) {
  std::string out;
  switch (value.type()) {
    case JsonType::kString:
      return python::repr(*value.as_string());
    case JsonType::kArray:
      for (const JsonValue& element : value.elements()) out += (out.empty() ? "" : ", ") + python_repr(element);
      return "[" + out + "]";
    case JsonType::kObject:
      for (const auto& [name, member] : value.members()) {
        out += (out.empty() ? "" : ", ") + python::repr(name) + ": " + python_repr(member);
      }
      return "{" + out + "}";
    default:
      return describe_input(value);
  }
}

// The object as the reference's messages show it. A schema can be long, and a message is no place for it.
std::string describe(const StructuredOutputsFields& f, const JsonValue& schema) {
  constexpr int64_t kMaxShownCharacters = 1000;
  const auto shown = [](std::string text) {
    if (python::length(text) <= kMaxShownCharacters) return text;
    return std::string(python::first_characters(text, kMaxShownCharacters)) + "...[truncated]";
  };
  const auto text = [&](const std::optional<std::string>& value) {
    return value ? shown(python::repr(std::string_view(*value))) : "None";
  };
  const auto flag = [](bool value) { return value ? "True" : "False"; };
  return fmt::format(
      "{{'json': {}, 'regex': {}, 'choice': {}, 'grammar': {}, 'json_object': {}, 'disable_any_whitespace': {}, "
      "'disable_additional_properties': {}, 'whitespace_pattern': {}, 'structural_tag': {}, '_backend': None, "
      "'_backend_was_auto': False}}",
      f.json ? shown(python_repr(schema)) : "None", text(f.regex), f.choice ? shown(python::repr(*f.choice)) : "None",
      text(f.grammar), f.json_object ? flag(*f.json_object) : "None", flag(f.disable_any_whitespace),
      flag(f.disable_additional_properties), text(f.whitespace_pattern), text(f.structural_tag));
}

MaybeError check_one_kind(const StructuredOutputsFields& fields, const JsonValue& schema) {
  if (fields.num_kinds() > 1) {
    return bad_request("You can only use one kind of structured outputs constraint but multiple are specified: " +
                       describe(fields, schema));
  }
  if (fields.num_kinds() < 1) {
    return bad_request("You must use one kind of structured outputs constraint but none are specified: " +
                       describe(fields, schema));
  }
  return std::nullopt;
}

ApiError invalid_tag(const char* field) {
  return invalid_parameter(fmt::format("Invalid {} structural_tag specification.", field), field);
}

// What can be said of a tag before it is compiled.
MaybeError check_tag_text(std::string_view text, const char* field) {
  const auto document = JsonDocument::parse(text);
  if (!document.ok() || !document->root().is_object()) return invalid_tag(field);
  return check_tag_nesting(document->root());
}

void read_schema(FieldReader& reader, std::optional<std::string>& out) {
  const auto value = reader.find("json");
  if (!value || value->is_null()) return;
  if (const auto text = value->as_string()) {
    out = std::string(*text);
  } else if (value->is_object()) {
    out = value->dump();
  } else {
    coerce_string(*value, reader.loc("json"), reader.errors());
    reader.errors().add(
        {"dict_type", reader.loc("json"), "Input should be a valid dictionary", describe_input(*value), {}});
  }
}

void read_kinds(FieldReader& reader, StructuredOutputsFields& out) {
  const auto value = reader.find(kStructuredOutputs);
  if (!value || value->is_null()) return;
  const std::string loc = reader.loc(kStructuredOutputs);
  if (!value->is_object()) {
    reader.errors().add({"dataclass_type", loc,
                         "Input should be a dictionary or an instance of StructuredOutputsParams",
                         describe_input(*value), "{'class_name': 'StructuredOutputsParams'}"});
    return;
  }
  FieldErrors errors;
  FieldReader inner(*value, loc, errors);
  read_schema(inner, out.json);
  inner.read("regex", out.regex);
  inner.read("choice", out.choice);
  inner.read("grammar", out.grammar);
  inner.read("json_object", out.json_object);
  inner.read("disable_any_whitespace", out.disable_any_whitespace);
  inner.read("disable_additional_properties", out.disable_additional_properties);
  inner.read("whitespace_pattern", out.whitespace_pattern);
  inner.read("structural_tag", out.structural_tag);
  reader.errors().append(errors);
  // The reference looks at the whole only where its parts are well-formed.
  if (errors.empty()) out.error = check_one_kind(out, (*value)["json"]);
}

void expect_type(FieldReader& reader, const char* expected, const char* message) {
  const auto type = reader.find("type");
  if (!type) return reader.missing("type");
  reader.errors().add({"literal_error", reader.loc("type"), message, describe_input(*type),
                       fmt::format("{{'expected': {}}}", expected)});
}

// What pydantic says of each member of its union, in order.
void add_format_errors(FieldReader& reader, bool type_is_plain, const FieldErrors& plain_errors) {
  if (!type_is_plain) {
    expect_type(reader, R"("'text', 'json_object' or 'json_schema'")",
                "Input should be 'text', 'json_object' or 'json_schema'");
  }
  reader.errors().append(plain_errors);
  constexpr const char* kExpectsTag = "Input should be 'structural_tag'";
  for (const bool legacy : {false, true}) {
    expect_type(reader, R"("'structural_tag'")", kExpectsTag);
    for (const char* name : {"format", "structures", "triggers"}) {
      if ((name[0] != 'f') == legacy && !reader.find(name)) reader.missing(name);
    }
  }
}

// The schema goes to `schema`; the result is the type, or nullopt where the format is none.
std::optional<std::string> read_format(FieldReader& reader, std::optional<JsonValue>& schema) {
  const auto value = reader.find(kResponseFormat);
  if (!value || value->is_null()) return std::nullopt;
  if (!value->is_object()) {
    reader.errors().add({"model_attributes_type",
                         reader.loc(kResponseFormat),
                         "Input should be a valid dictionary or object to extract fields from",
                         describe_input(*value),
                         {}});
    return std::nullopt;
  }
  const auto type = (*value)["type"].as_string();
  if (type == std::string_view("structural_tag")) return "structural_tag";  // looked at by check_response_format()
  FieldReader format(*value, reader.loc(kResponseFormat), reader.errors());
  const bool plain = type == std::string_view("text") || type == std::string_view("json_object") ||
                     type == std::string_view("json_schema");
  FieldErrors errors;
  const auto given = format.find("json_schema");
  if (given && given->is_object()) {
    FieldReader inner(*given, format.loc("json_schema"), errors);
    std::string name;
    if (inner.find("name")) {
      inner.read("name", name);
    } else {
      inner.missing("name");
    }
    std::optional<std::string> description;
    std::optional<bool> strict;
    inner.read("description", description);
    inner.read_object("schema", schema);
    inner.read("strict", strict);
  } else if (given && !given->is_null()) {
    errors.add({"model_attributes_type",
                format.loc("json_schema"),
                "Input should be a valid dictionary or object to extract fields from",
                describe_input(*given),
                {}});
  }
  if (plain && errors.empty()) return std::string(*type);
  add_format_errors(format, plain, errors);
  return std::nullopt;
}

// As the reference: the format's kind is added to what is there, and the result must still be one kind.
void lay_over(FieldReader& reader, const std::string& type, const std::optional<JsonValue>& schema,
              StructuredOutputsFields& out) {
  const JsonValue format = *reader.find(kResponseFormat);
  JsonValue shown = reader.object()[kStructuredOutputs]["json"];
  if (type == "json_object") {
    out.json_object = true;
  } else if (type == "json_schema") {
    out.json.reset();
    if (schema) {
      out.json = schema->dump();
      shown = *schema;
    }
  } else {
    out.structural_tag = format.dump();
    out.field = kResponseFormat;
  }
  out.conflict = check_one_kind(out, shown);
}

}  // namespace

MaybeError check_structured_outputs_count(const JsonValue& body) {
  const JsonValue given = body[kStructuredOutputs];
  int count = 0;
  for (const char* kind : {"json", "regex", "choice"}) count += given[kind].is_null() ? 0 : 1;
  if (count > 1) {
    return invalid_parameter(
        "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').",
        kStructuredOutputs);
  }
  const JsonValue tag = given["structural_tag"];
  if (tag.is_null()) return std::nullopt;
  const auto text = tag.as_string();
  return text ? check_tag_text(*text, kStructuredOutputs) : invalid_tag(kStructuredOutputs);
}

MaybeError check_response_format(const JsonValue& body) {
  const JsonValue format = body[kResponseFormat];
  const auto type = format["type"].as_string();
  if (type == std::string_view("json_schema") && format["json_schema"].is_null()) {
    return invalid_parameter("When response_format type is 'json_schema', the 'json_schema' field must be provided.",
                             kResponseFormat);
  }
  if (type != std::string_view("structural_tag")) return std::nullopt;
  const bool legacy = format["structures"].is_array() && format["triggers"].is_array();
  if (!legacy && !format.find("format")) return invalid_tag(kResponseFormat);
  return check_tag_nesting(format);
}

void read_structured_outputs(FieldReader& reader, StructuredOutputsFields& out, ResponseFormats formats) {
  std::optional<JsonValue> schema;
  std::optional<std::string> type;
  if (formats == ResponseFormats::kRead) {
    out.field = kStructuredOutputs;
    type = read_format(reader, schema);
  }
  read_kinds(reader, out);
  if (type && *type != "text" && !out.error) lay_over(reader, *type, schema, out);
}

void constrain_to_structural_tag(StructuredOutputsFields& fields, std::string tag_json) {
  StructuredOutputsFields constrained;
  constrained.structural_tag = std::move(tag_json);
  constrained.reasoning_ends = std::move(fields.reasoning_ends);
  fields = std::move(constrained);
}

void constrain_to_schema(StructuredOutputsFields& fields, std::string schema_json) {
  StructuredOutputsFields constrained;
  constrained.json = std::move(schema_json);
  constrained.reasoning_ends = std::move(fields.reasoning_ends);
  fields = std::move(constrained);
}

}  // namespace unspool
