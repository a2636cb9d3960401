// Replies of POST /v1/chat/completions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/output_parser.h"
#include "protocol/chat_logprobs.h"
#include "protocol/chat_request.h"
#include "protocol/reply_assembler.h"
#include "protocol/token_text.h"

namespace unspool {

// Of one conversation.
struct ConversationReply {
  std::string role;         // of the message that answers
  std::string echo;         // what it begins with
  std::string prompt_text;  // for return_prompt_text
};

// Of a stream whose chunks are made one by one, each by a reply of its own that hears again what came before.
struct ResumedStream {
  bool role_due = true;               // no delta had it yet
  std::vector<std::string> call_ids;  // of the calls that were begun
};

struct ChatReplyOptions {
  std::optional<ChatLogprobs> logprobs{};
  bool return_token_ids = false;
  bool return_prompt_text = false;
  bool batch = false;
  std::vector<ConversationReply> conversations{};

  std::unique_ptr<const chat::OutputParser> parser{};  // null: the text is the content
  bool counts_reasoning = false;                       // a reasoning parser is there
  bool hide_reasoning = false;                         // include_reasoning was false
  ToolFields tools{};
  std::optional<ResumedStream> resumed{};  // set: the role comes with the first delta, not in a chunk of its own
};

class ChatReply final : public ReplyAssembler {
 public:
  ChatReply(ReplyOptions options, ChatReplyOptions chat, TokenText text);

  // Where a resumed stream stands now.
  const ResumedStream& resumed() const { return *chat_.resumed; }

 private:
  // Of a choice that is streamed.
  struct ChoiceStream {
    std::unique_ptr<chat::OutputStream> parser;
    bool called = false;                // a call of a tool has been sent
    std::vector<std::string> call_ids;  // of these calls
  };

  std::string opening() override;
  std::string chunk(int index, Choice& choice, SequenceDelta delta) override;
  std::string body() override;
  std::string usage_chunk() override;

  void begin_chunk(JsonWriter& w) const;
  std::string opening_chunk(int index, bool with_role, std::string_view content);
  chat::OutputDelta read_delta(int index, const SequenceDelta& delta);
  void write_delta(JsonWriter& w, int index, const chat::OutputDelta& delta);
  void write_choice(JsonWriter& w, int index, Choice& choice, const SequenceDelta& delta);
  void write_message(JsonWriter& w, int index, const chat::ParsedOutput& parsed) const;
  void write_logprobs(JsonWriter& w, Choice& choice, const SequenceDelta& delta);
  void write_ids(JsonWriter& w, const SequenceDelta& delta) const;
  void write_prompt(JsonWriter& w) const;
  void write_finish(JsonWriter& w, const SequenceDelta& delta, bool called) const;
  chat::ParsedOutput parse(const SequenceDelta& delta) const;
  Usage chunk_usage(int index, const Choice& choice) const;
  bool shows_tokens() const { return !chat_.hide_reasoning && (chat_.logprobs.has_value() || chat_.return_token_ids); }

  ChatReplyOptions chat_;
  TokenText text_;
  std::vector<ChoiceStream> streams_;  // one a choice, where a stream is parsed
  int64_t reasoning_tokens_ = 0;       // of a whole reply
};

}  // namespace unspool
