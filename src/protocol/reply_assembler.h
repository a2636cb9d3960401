// Puts a reply together from what the engine hands back, for all prompts and samples of one request. No server, no
// threads: outputs go in, JSON or SSE text comes out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/wire_values.h"
#include "request/outputs.h"

namespace unspool {

// What every reply needs to know.
struct ReplyOptions {
  std::string id;  // "cmpl-...", "chatcmpl-...", "generate-tokens-..."
  std::string model;
  int64_t created = 0;
  double arrival_s = 0;
  int n = 1;
  int first_index = 0;                        // of the first choice, where others are in other replies
  std::vector<std::vector<int32_t>> prompts;  // token ids
  std::optional<int64_t> prompt_tokens{};     // in all, where the prompts are empty because nobody has them
  bool stream = false;
  int stream_interval = 1;  // tokens a chunk
  bool include_usage = false;
  bool continuous_usage = false;
  bool prompt_tokens_details = false;
  bool request_metrics = false;
  std::optional<std::string> system_fingerprint;
};

// The keys that every reply and chunk begins with: id, object, created, model.
void write_reply_head(JsonWriter& w, const ReplyOptions& options, const char* object);

class ReplyAssembler {
 public:
  explicit ReplyAssembler(ReplyOptions options);
  virtual ~ReplyAssembler() = default;
  ReplyAssembler(const ReplyAssembler&) = delete;
  ReplyAssembler& operator=(const ReplyAssembler&) = delete;

  // Returns what to send now: events of a stream, nothing for a plain reply. After the end or an error it does nothing.
  std::string add(int prompt_index, RequestOutput output, double now_s);
  // Every prompt has ended, or one has failed: finish() is due and nothing more will be used.
  bool done() const { return error_.has_value() || finished_prompts_ == num_prompts(); }
  // Once, when done: the body of a plain reply, or the end of a stream (usage, an error, "[DONE]"). May itself find an
  // error in a plain reply; the body is then of no use.
  std::string finish();
  const MaybeError& error() const { return error_; }
  bool stream() const { return options_.stream; }

  // For logs and metrics.
  int64_t prompt_tokens() const;
  int64_t completion_tokens() const;

 protected:
  struct Choice {
    int64_t num_tokens = 0;  // generated, sent or not
    bool sent = false;       // a chunk of it has left
    bool finished = false;
    SequenceDelta pending;  // gathered: of the whole reply, or since the last chunk
    int64_t next_text_offset = 0;
    TokenContext context;  // of the tokens shown so far
  };
  struct Prompt {
    std::optional<std::vector<PositionLogprobs>> logprobs;
    int64_t num_cached_tokens = 0;
    bool heard = false;
    bool finished = false;
  };

  // What a stream begins with, once the engine has said something: whole events.
  virtual std::string opening() { return {}; }
  // One event of choice `index` that carries `delta`; empty where there is nothing to say.
  virtual std::string chunk(int index, Choice& choice, SequenceDelta delta) = 0;
  virtual std::string body() = 0;
  virtual std::string usage_chunk() = 0;

  int num_prompts() const { return static_cast<int>(options_.prompts.size()); }
  int prompt_of(int index) const { return index / options_.n; }
  // id, object, created, model.
  void write_head(JsonWriter& w, const char* object) const;
  Usage usage() const;
  Usage choice_usage(int index, const Choice& choice) const;
  // Of the OpenAI routes' bodies: service_tier and system_fingerprint, null where there is none.
  void write_service(JsonWriter& w) const;
  // Transfer parameters and metrics, and the object's end.
  void write_body_end(JsonWriter& w) const;
  // Of their chunks, which leave out what there is not.
  void write_known_fingerprint(JsonWriter& w) const;
  // Fingerprint and metrics, and the object's end.
  void write_usage_chunk_end(JsonWriter& w) const;

  ReplyOptions options_;
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;  // prompt-major: prompt * n + sample
  RequestTimes times_;
  bool broken_number_ = false;  // a NaN or +inf was to be written

 private:
  bool shows_metrics() const { return options_.request_metrics && num_prompts() == 1 && options_.n == 1; }
  std::string take(int index, SequenceDelta delta);
  int finished_prompts_ = 0;
  bool opened_ = false;
  bool started_ = false;  // a token has come
  MaybeError error_;
};

}  // namespace unspool
