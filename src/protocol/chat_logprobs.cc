#include "protocol/chat_logprobs.h"

#include <algorithm>
#include <string_view>

#include "protocol/wire_values.h"

namespace unspool {
namespace {

void write_bytes(JsonWriter& w, std::string_view text) {
  w.key("bytes");
  w.begin_array();
  for (const char byte : text) w.integer(static_cast<unsigned char>(byte));
  w.end_array();
}

// The bytes of an alternative are those of what is shown, placeholder or not.
void write_alternative(JsonWriter& w, const TokenLogprob& entry, const TokenText& text, const TokenContext& context,
                       bool& broken) {
  const std::string shown = text.show(entry.token_id, context.tokens());
  w.begin_object();
  w.key("token");
  w.string(shown);
  w.key("logprob");
  write_logprob(w, entry.logprob, broken);
  write_bytes(w, shown);
  w.end_object();
}

}  // namespace

void write_chat_logprobs(JsonWriter& w, const SequenceDelta& delta, const ChatLogprobs& options, const TokenText& text,
                         TokenContext& context, bool& broken) {
  const bool all = options.all_candidates || options.top_logprobs == -1;
  w.begin_object();
  w.key("content");
  w.begin_array();
  for (size_t i = 0; i < delta.token_ids.size(); ++i) {
    const int32_t id = delta.token_ids[i];
    const bool known = i < delta.logprobs.size() && !delta.logprobs[i].empty();
    w.begin_object();
    w.key("token");
    w.string(text.show(id, context.tokens()));
    // A stream leaves out what it does not know, a whole reply has the stand-in for it.
    if (known || !options.stream) {
      w.key("logprob");
      write_logprob(w, known ? delta.logprobs[i].front().logprob : kLogprobFloor, broken);
    }
    write_bytes(w, text.decoded(id, context.tokens()));
    if (known || !options.stream) {
      w.key("top_logprobs");
      w.begin_array();
      const size_t size = known ? delta.logprobs[i].size() : 0;
      const size_t shown = all ? size : std::min(size, static_cast<size_t>(options.top_logprobs));
      for (size_t k = 0; k < shown; ++k) write_alternative(w, delta.logprobs[i][k], text, context, broken);
      w.end_array();
    }
    if (i < delta.kept_logprobs.size()) {
      w.key("kept_logprob");
      write_logprob(w, delta.kept_logprobs[i], broken);
    }
    w.end_object();
    context.push(id);
  }
  w.end_array();
  w.end_object();
}

}  // namespace unspool
