// Replies of POST /v1/completions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/reply_assembler.h"
#include "protocol/token_text.h"

namespace unspool {

struct CompletionReplyOptions {
  std::optional<int> logprobs{};  // positions shown after the sampled token; -1: all
  bool all_candidates = false;    // logprob_token_ids: show what was asked for
  bool kept_mass = false;
  bool echo = false;
  bool scores_only = false;  // echo with max_tokens 0: the one token that was drawn is not shown
  bool return_token_ids = false;
  std::vector<std::string> prompt_texts{};  // for echo; empty with return_token_ids, as the reference has it
};

class CompletionReply final : public ReplyAssembler {
 public:
  CompletionReply(ReplyOptions options, CompletionReplyOptions completion, TokenText text);

 private:
  std::string chunk(int index, Choice& choice, SequenceDelta delta) override;
  std::string body() override;
  std::string usage_chunk() override;

  void write_choice(JsonWriter& w, int index, Choice& choice, const SequenceDelta& delta);
  // The lists of one chunk or choice: the prompt's tokens where they are due, then the delta's.
  void write_logprobs(JsonWriter& w, int index, Choice& choice, const SequenceDelta& delta, bool with_prompt);
  void write_top_logprobs(JsonWriter& w, const PositionLogprobs& position, const TokenContext& context);
  std::string shown_text(int index, const SequenceDelta& delta, bool with_prompt) const;

  CompletionReplyOptions completion_;
  TokenText text_;
};

}  // namespace unspool
