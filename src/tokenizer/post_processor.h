// The post-processor of tokenizer.json: the special tokens around an encoded text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "json/json.h"

namespace unspool {

class PostProcessor {
 public:
  // Null is none; ByteLevel, which concerns offsets alone, too. Errors: kInvalidArgument naming a type other than
  // TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and Sequence, or a template that cannot be.
  static Result<PostProcessor> load(const JsonValue& json);

  int32_t max_id() const;  // the largest of the special tokens, -1 where there are none
  std::vector<int32_t> apply(std::vector<int32_t> ids, bool add_special_tokens) const;

 private:
  // Part of the template for one text: the text itself, or special tokens.
  struct Part {
    bool is_text = false;
    std::vector<int32_t> ids;
  };
  static Result<PostProcessor> load_template(const JsonValue& json);
  static Result<PostProcessor> load_pair(const JsonValue& json, const std::string& type);
  static Result<PostProcessor> load_sequence(const JsonValue& json);

  std::vector<Part> parts_;  // empty: the text as it is
};

}  // namespace unspool
