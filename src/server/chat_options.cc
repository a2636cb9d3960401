#include "server/chat_options.h"

#include "server/option_reader.h"

namespace unspool {

ChatOptions read_chat_options(OptionReader& reader, const FlagValues&) {
  ChatOptions out;
  reader.text("chat-template", out.chat_template);
  const size_t format = reader.choice("chat-template-content-format", {"auto", "string", "openai"}, 0);
  if (format > 0) out.content_format = format == 1 ? chat::ContentFormat::kString : chat::ContentFormat::kOpenAi;
  reader.object("default-chat-template-kwargs", out.default_kwargs);
  reader.flag("trust-request-chat-template", out.trust_request_template);
  reader.text("response-role", out.response_role);
  reader.flag("exclude-tools-when-tool-choice-none", out.exclude_tools_when_none);
  return out;
}

}  // namespace unspool
