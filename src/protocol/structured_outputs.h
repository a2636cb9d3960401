// Structured outputs as requests ask for them: the fields `structured_outputs` and `response_format`, which completions
// and chat have both and generate has the former of.
//
// A route calls the two check_* before its fields are read and read_structured_outputs() among them; `error`, once set,
// is its answer, whatever else is wrong. The rest comes with check_sampling_ranges(), check_against_model() (lazily)
// and to_sampling_params().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/field_reader.h"
#include "protocol/serving_config.h"
#include "request/structured_outputs.h"

namespace unspool {

// One of the six kinds is set, or none.
struct StructuredOutputsFields {
  std::optional<std::string> json;  // the schema's text; one given as an object is written out
  std::optional<std::string> regex;
  std::optional<std::vector<std::string>> choice;
  std::optional<std::string> grammar;
  std::optional<bool> json_object;
  std::optional<std::string> structural_tag;
  bool disable_any_whitespace = false;
  bool disable_additional_properties = false;
  std::optional<std::string> whitespace_pattern;

  // For routes that know of reasoning; see StructuredOutputs.
  std::vector<ReasoningEnd> reasoning_ends;

  std::string field;    // that a bad structural tag is blamed on
  MaybeError error;     // from reading: it wins over the errors of any field
  MaybeError conflict;  // response_format beside something else, or without its schema

  int num_kinds() const {
    return json.has_value() + regex.has_value() + choice.has_value() + grammar.has_value() + json_object.has_value() +
           structural_tag.has_value();
  }
};

// The reference's validators of the whole body, which run before its fields are read.
MaybeError check_structured_outputs_count(const JsonValue& body);
MaybeError check_response_format(const JsonValue& body);

enum class ResponseFormats { kRead, kNoSuchField };
void read_structured_outputs(FieldReader& reader, StructuredOutputsFields& out, ResponseFormats formats);

// tool_choice: the output must match the tag, whatever else the request said.
void constrain_to_structural_tag(StructuredOutputsFields& fields, std::string tag_json);

// tool_choice, for calls in JSON alone.
void constrain_to_schema(StructuredOutputsFields& fields, std::string schema_json);
// What checked fields ask for, as a format within a structural tag; empty: nothing.
std::string to_structural_format(const StructuredOutputsFields& fields, const ServingConfig& config);

// What the engine refuses without compiling anything: empty texts, deep nesting, features that no grammar has, and
// everything where there is no grammar engine.
MaybeError check_constraint(const StructuredOutputsFields& fields, const ServingConfig& config);
// Of checked fields; null where nothing is constrained.
std::shared_ptr<const StructuredOutputs> to_structured_outputs(const StructuredOutputsFields& fields,
                                                               const ServingConfig& config);

}  // namespace unspool
