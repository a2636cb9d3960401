#include "server/chat_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "server/option_reader.h"

namespace unspool {
namespace {

std::string parser_name(OptionReader& reader, const FlagValues& values, const char* flag,
                        const std::vector<std::string_view>& names) {
  std::string name = values.text(flag);
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
    reader.fail(fmt::format("--{} must be one of {}, not '{}'", flag, fmt::join(names, ", "), name));
  }
  return name;
}

// The parser is loaded with --enable-auto-tool-choice alone, as the reference does it.
std::string tool_call_parser(OptionReader& reader, const FlagValues& values) {
  std::string name = parser_name(reader, values, "tool-call-parser", chat::tool_call_parser_names());
  if (!values.enabled("enable-auto-tool-choice", false)) return {};
  if (name.empty()) reader.fail("--enable-auto-tool-choice requires --tool-call-parser");
  return name;
}

bool strict_tool_calling(OptionReader& reader, Environment environment) {
  constexpr const char* kName = "VLLM_ENFORCE_STRICT_TOOL_CALLING";
  const char* text = environment(kName);
  const std::string_view value = text == nullptr || *text == '\0' ? "1" : text;
  if (value == "1" || value == "true" || value == "True") return true;
  if (value != "0" && value != "false" && value != "False") {
    reader.fail(fmt::format("{} must be 0 or 1, not '{}'", kName, value));
  }
  return false;
}

}  // namespace

ChatOptions read_chat_options(OptionReader& reader, const FlagValues& values, Environment environment) {
  ChatOptions out;
  reader.text("chat-template", out.chat_template);
  const size_t format = reader.choice("chat-template-content-format", {"auto", "string", "openai"}, 0);
  if (format > 0) out.content_format = format == 1 ? chat::ContentFormat::kString : chat::ContentFormat::kOpenAi;
  reader.object("default-chat-template-kwargs", out.default_kwargs);
  reader.flag("trust-request-chat-template", out.trust_request_template);
  reader.flag("trust-request-mm-kwargs", out.trust_request_media);
  reader.text("response-role", out.response_role);
  reader.flag("exclude-tools-when-tool-choice-none", out.exclude_tools_when_none);
  const std::string level = values.text("tool-strict-level", "auto");
  if (const auto parsed = chat::parse_tool_strict_level(level)) {
    out.tool_strict_level = *parsed;
  } else {
    reader.fail(fmt::format("--tool-strict-level must be one of auto, function, parameter, not '{}'", level));
  }
  out.strict_tool_calling = strict_tool_calling(reader, environment);
  out.tool_call_parser = tool_call_parser(reader, values);
  out.reasoning_parser = parser_name(reader, values, "reasoning-parser", chat::reasoning_parser_names());
  return out;
}

}  // namespace unspool
