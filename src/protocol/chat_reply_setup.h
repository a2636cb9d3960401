// What a chat request says of its reply.
#pragma once

#include <memory>

#include "chat/output_parser.h"
#include "protocol/chat_config.h"
#include "protocol/chat_reply.h"
#include "protocol/chat_request.h"
#include "protocol/sampling_fields.h"

namespace unspool {

// All but the parser and the conversations. `fields`: the request's, with the server's defaults.
ChatReplyOptions chat_options(const ChatRequest& request, const SamplingFields& fields, const ChatConfig& config);
// Null where the text is the content. It must not outlive the configuration.
std::unique_ptr<const chat::OutputParser> output_parser(const ChatRequest& request, bool enable_thinking,
                                                        const ChatConfig& config);

}  // namespace unspool
