// Whether a template goes over the parts of a message's content, or prints it as a text.
#pragma once

#include "chat/chat_template.h"
#include "jinja/ast.h"

namespace unspool::chat {

// vLLM's rule: a loop over `message.content`, where `message` is the variable of a loop over `messages` or over what
// was set from them; over a variable called `content` outside of macros; or over a macro's parameter that is given
// such.
ContentFormat detect_content_format(const jinja::SyntaxTree& tree);

}  // namespace unspool::chat
