// What the chat routes need to know of the server. Set once at start.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/chat_template.h"
#include "chat/output_parser.h"
#include "json/json.h"

namespace unspool {

struct ChatConfig {
  using Template = std::shared_ptr<const chat::ChatTemplate>;

  Template chat_template;   // null: none that works
  Template tool_template;   // for requests with tools
  std::string no_template;  // why there is none, in words for a client
  // By name, for requests that name one of the model's.
  std::vector<std::pair<std::string, Template>> named_templates;
  // For templates that requests bring.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::optional<chat::ContentFormat> content_format;  // nullopt: as each template's text says
  bool trust_request_template = false;
  bool trust_request_media = false;  // settings of images and sounds, which change nothing about texts

  std::shared_ptr<const JsonDocument> default_kwargs;  // an object; null: none
  std::string response_role = "assistant";
  bool exclude_tools_when_none = false;
  chat::ToolStrictLevel tool_strict_level = chat::ToolStrictLevel::kAuto;

  std::shared_ptr<const chat::OutputParsers> parsers;  // null: neither for tool calls nor for reasoning
  bool parses_tools() const { return parsers != nullptr && parsers->parses_tools(); }
  bool parses_reasoning() const { return parsers != nullptr && parsers->parses_reasoning(); }
};

}  // namespace unspool
