// transformers' way of leaving the last message open: it is marked, and the prompt is cut at the mark.
#pragma once

#include <string_view>
#include <vector>

#include "jinja/template_error.h"
#include "jinja/text.h"
#include "jinja/value.h"

namespace unspool::chat {

class FinalMessage {
 public:
  // Marks the end of the last message. Throws a Fault where there is nothing to continue. `source` is the template's.
  static FinalMessage mark(std::vector<jinja::Value>& messages, std::string_view source);

  // The prompt up to the mark. Throws where the template dropped the message or the mark.
  jinja::Text cut(const jinja::Text& rendered) const;

 private:
  explicit FinalMessage(jinja::Text text) : text_(std::move(text)) {}
  jinja::Text text_;  // what is continued
};

}  // namespace unspool::chat
