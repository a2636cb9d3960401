// Log-probs as chat shows them: one entry a token, with its bytes.
#pragma once

#include "json/json_writer.h"
#include "protocol/token_text.h"
#include "request/outputs.h"

namespace unspool {

struct ChatLogprobs {
  int top_logprobs = 0;         // shown beside each token, the sampled one first among them; -1: all
  bool all_candidates = false;  // logprob_token_ids: show what was asked for
  bool stream = false;
};

// {"content":[{"token","logprob","bytes","top_logprobs"}, ...]}, one entry for each token of the delta, whatever became
// of its text. `context`: the tokens before; those of the delta are added. `broken`: see write_logprob.
void write_chat_logprobs(JsonWriter& w, const SequenceDelta& delta, const ChatLogprobs& options, const TokenText& text,
                         TokenContext& context, bool& broken);

}  // namespace unspool
