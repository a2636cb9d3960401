// The content beside calls of tools, as the reference's newer parsers pass it on.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/tool_format.h"

namespace unspool::chat {

// Space alone is content only where no call follows it, and behind a call only once there was more than space.
class EngineContent {
 public:
  void read(std::string_view text, OutputDelta& out) {
    if (saw_text_) return append_content(out, text);
    for (size_t i = 0; i < text.size(); ++i) {
      if (!is_ascii_space(text[i])) {
        saw_text_ = true;
        append_content(out, std::exchange(spaces_, {}));
        return append_content(out, text.substr(i));
      }
      if (!saw_call_) spaces_ += text[i];
    }
  }
  void begin_call() {
    saw_call_ = true;
    spaces_.clear();
  }
  void finish(OutputDelta& out) { append_content(out, spaces_); }

 private:
  bool saw_text_ = false;
  bool saw_call_ = false;
  std::string spaces_;
};

// The same of a whole content: where calls were made, what is before the first one, without space at its ends.
class EngineWhole {
 public:
  explicit EngineWhole(bool wants_calls) : wants_calls_(wants_calls) {}

  void read(std::string_view text) { text_ += text; }
  void begin_call() {
    if (!first_call_) first_call_ = text_.size();
  }
  ParsedOutput take(std::vector<ToolCall> calls) {
    ParsedOutput out;
    if (!calls.empty() && wants_calls_) text_ = strip(std::string(text_, 0, *first_call_));
    const bool is_nothing = text_.empty() || (wants_calls_ && first_call_ && is_blank(text_));
    if (!is_nothing) out.content = std::move(text_);
    out.tool_calls = std::move(calls);
    return out;
  }

 private:
  bool wants_calls_;
  std::string text_;
  std::optional<size_t> first_call_;
};

}  // namespace unspool::chat
