// The flags of chat: templates, tool calls, reasoning.
#pragma once

#include <optional>
#include <string>

#include "chat/chat_template.h"
#include "chat/output_parser.h"
#include "server/control_options.h"

namespace unspool {

class FlagValues;
class OptionReader;

struct ChatOptions {
  std::string chat_template;                          // a file, a name, or the template itself; empty: the model's
  std::optional<chat::ContentFormat> content_format;  // nullopt: auto
  std::string default_kwargs = "{}";
  bool trust_request_template = false;
  bool trust_request_media = false;
  std::string response_role = "assistant";
  bool exclude_tools_when_none = false;
  chat::ToolStrictLevel tool_strict_level = chat::ToolStrictLevel::kAuto;
  bool strict_tool_calling = true;
  std::string tool_call_parser;  // empty: none, or without --enable-auto-tool-choice
  std::string reasoning_parser;  // empty: none
};

// Errors stay with the reader.
ChatOptions read_chat_options(OptionReader& reader, const FlagValues& values, Environment environment);

}  // namespace unspool
