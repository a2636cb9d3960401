// What the chat routes need, read once at start.
#pragma once

#include <string>

#include "base/result.h"
#include "protocol/chat_config.h"
#include "server/chat_options.h"
#include "tokenizer/tokenizer.h"

namespace unspool {

// `directory` is the tokenizer's, which has the model's templates. A model whose template is missing or broken is
// served all the same, and its chat routes say why they are not. `tokenizer` is null where ids alone are served.
Result<ChatConfig> load_chat_config(const ChatOptions& options, const std::string& directory,
                                    const Tokenizer* tokenizer);

}  // namespace unspool
