// The chat templates of a model directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace unspool::chat {

struct TemplateFiles {
  // Name and source. A model with one template calls it "default".
  std::vector<std::pair<std::string, std::string>> templates;
  // "bos_token" and the like, with their texts.
  std::vector<std::pair<std::string, std::string>> special_tokens;

  const std::string* find(std::string_view name) const;
  // The one that transformers takes: "tool_use" for requests with tools where there is one, else "default"; nullptr
  // where the model has none. Errors: kInvalidArgument where there are several and no default among them.
  Result<const std::string*> choose(bool has_tools) const;
};

// As transformers reads them: chat_template.jinja and additional_chat_templates/*.jinja, or else chat_template of
// tokenizer_config.json, a text or a list of {"name", "template"}, or else chat_template.json, which older processors
// have. A model without any is no error. Errors: kInvalidArgument where a file is there and broken.
Result<TemplateFiles> read_template_files(const std::string& model_dir);

}  // namespace unspool::chat
