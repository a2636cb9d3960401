// Replies of POST /inference/v1/generate.
#pragma once

#include <optional>
#include <string>

#include "protocol/generate_request.h"
#include "protocol/reply_assembler.h"
#include "protocol/token_text.h"

namespace unspool {

struct GenerateReplyOptions {
  OutputMode mode = OutputMode::kTokens;
  std::optional<int> logprobs{};  // candidates shown, the sampled one first; -1: all
  bool all_candidates = false;
  bool return_token_ids = false;
};

class GenerateReply final : public ReplyAssembler {
 public:
  GenerateReply(ReplyOptions options, GenerateReplyOptions generate, TokenText text);

 private:
  std::string chunk(int index, Choice& choice, SequenceDelta delta) override;
  std::string body() override;
  std::string usage_chunk() override;

  bool text_mode() const { return generate_.mode == OutputMode::kText; }
  void write_mode(JsonWriter& w) const;
  void write_choice(JsonWriter& w, int index, Choice& choice, const SequenceDelta& delta);
  void write_logprobs(JsonWriter& w, Choice& choice, const SequenceDelta& delta) const;
  // One entry, open: its caller adds top_logprobs and closes it.
  void write_entry(JsonWriter& w, const TokenLogprob& entry, const TokenContext& context) const;
  void write_token(JsonWriter& w, int32_t id, const TokenContext& context) const;

  GenerateReplyOptions generate_;
  TokenText text_;
};

}  // namespace unspool
