#include "tokenizer/post_processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tokenizer/json_fields.h"

namespace unspool {

Result<PostProcessor> PostProcessor::load(const JsonValue& json) {
  if (json.is_null()) return PostProcessor();
  UNSPOOL_ASSIGN(const std::string type, type_field("post_processor", json));
  if (type == "ByteLevel") return PostProcessor();
  if (type == "TemplateProcessing") return load_template(json);
  if (type == "BertProcessing" || type == "RobertaProcessing") return load_pair(json, type);
  if (type == "Sequence") return load_sequence(json);
  return tokenizer_error("post_processor", fmt::format("type {} is not supported (TemplateProcessing, BertProcessing, "
                                                       "RobertaProcessing, ByteLevel and Sequence are)",
                                                       type));
}

// {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [0]}}}
Result<PostProcessor> PostProcessor::load_template(const JsonValue& json) {
  constexpr std::string_view kPart = "post_processor TemplateProcessing.single";
  if (!json["single"].is_array()) return expected_error(kPart, "an array", json["single"]);
  PostProcessor processor;
  for (const JsonValue& element : json["single"].elements()) {
    Part part;
    if (const auto name = element["SpecialToken"]["id"].as_string()) {
      const JsonValue ids = json["special_tokens"][*name]["ids"];
      if (!ids.is_array()) {
        return tokenizer_error(kPart, fmt::format("{} has no ids in special_tokens", *name));
      }
      for (const JsonValue& id : ids.elements()) {
        UNSPOOL_ASSIGN(const int32_t token, token_id("post_processor TemplateProcessing.special_tokens", id));
        part.ids.push_back(token);
      }
    } else if (element["Sequence"]["id"].as_string() == "A") {
      part.is_text = true;
    } else {
      return tokenizer_error(kPart, fmt::format("expected a SpecialToken or the Sequence A, got {}", element.dump()));
    }
    processor.parts_.push_back(std::move(part));
  }
  if (processor.parts_.empty()) processor.parts_.emplace_back();  // a template without the text gives no ids
  return processor;
}

// {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}: one token in front, one behind.
Result<PostProcessor> PostProcessor::load_pair(const JsonValue& json, const std::string& type) {
  PostProcessor processor;
  for (const char* name : {"cls", "sep"}) {
    const std::vector<JsonValue> pair = json[name].elements();
    const std::string part = fmt::format("post_processor {}.{}", type, name);
    if (pair.size() != 2) return expected_error(part, "a token and its id", json[name]);
    UNSPOOL_ASSIGN(const int32_t id, token_id(part, pair[1]));
    processor.parts_.push_back({false, {id}});
  }
  processor.parts_.insert(processor.parts_.begin() + 1, {true, {}});
  return processor;
}

Result<PostProcessor> PostProcessor::load_sequence(const JsonValue& json) {
  if (!json["processors"].is_array()) {
    return expected_error("post_processor Sequence.processors", "an array", json["processors"]);
  }
  PostProcessor processor;
  for (const JsonValue& element : json["processors"].elements()) {
    UNSPOOL_ASSIGN(PostProcessor inner, load(element));
    if (inner.parts_.empty()) continue;
    if (!processor.parts_.empty()) {
      return tokenizer_error("post_processor Sequence", "expected one processor that adds tokens, got more");
    }
    processor = std::move(inner);
  }
  return processor;
}

int32_t PostProcessor::max_id() const {
  int32_t max_id = -1;
  for (const Part& part : parts_) {
    for (const int32_t id : part.ids) max_id = std::max(max_id, id);
  }
  return max_id;
}

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids, bool add_special_tokens) const {
  if (parts_.empty()) return ids;
  std::vector<int32_t> all;
  for (const Part& part : parts_) {
    const std::vector<int32_t>& source = part.is_text ? ids : part.ids;
    if (part.is_text || add_special_tokens) all.insert(all.end(), source.begin(), source.end());
  }
  return all;
}

}  // namespace unspool
