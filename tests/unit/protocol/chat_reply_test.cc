// Chat replies put together from engine outputs: as recorded, and with the parts that a parser takes out of the text.
#include <gtest/gtest.h>

#include <regex>

#include "base/file.h"
#include "fake_tokenizer.h"
#include "json/json.h"
#include "protocol/chat_reply.h"

namespace unspool {
namespace {

using chat::ToolChoice;

const std::vector<int32_t> kTokens = {19556, 17, 339, 5248};
const std::vector<std::string> kTexts = {"Hello", "!", " I", "'m"};
const std::vector<float> kValues = {-2.0715506076812744f, -1.157699704170227f, -0.8906104564666748f,
                                    -0.6147914528846741f};
const std::vector<TokenLogprob> kOthers = {{57, -2.5715506076812744f, 2},
                                           {665, -1.157699704170227f, 2},
                                           {2055, -2.265610456466675f, 2},
                                           {506, -1.1147913932800293f, 2}};

// One token an output, as the engine streams them.
std::vector<RequestOutput> outputs(bool logprobs = false, FinishReason reason = FinishReason::kLength) {
  std::vector<RequestOutput> out(kTokens.size());
  for (size_t i = 0; i < kTokens.size(); ++i) {
    SequenceDelta delta;
    delta.token_ids = {kTokens[i]};
    delta.text = kTexts[i];
    if (logprobs) delta.logprobs = {{{kTokens[i], kValues[i], 1}, kOthers[i]}};
    if (i + 1 == kTokens.size()) {
      delta.finish_reason = reason;
      delta.weight_versions = {{"default", 0, 4}};
      out[i].finished = true;
    }
    out[i].deltas.push_back(std::move(delta));
  }
  return out;
}

ReplyOptions options(bool stream) {
  ReplyOptions o;
  o.id = "chatcmpl-x";
  o.model = "smollm2";
  o.created = 7;
  o.prompts = {std::vector<int32_t>(33, 1)};
  o.stream = stream;
  o.system_fingerprint = "fp";
  return o;
}

ChatReplyOptions assistant() {
  ChatReplyOptions o;
  o.conversations = {{"assistant", {}, {}}};
  return o;
}

TokenText token_text(bool ids = false) {
  return TokenText(std::make_shared<FakeTokenizer>(), ids);
}

// The events of a stream, or the one body, without what we add to the reference's replies.
std::vector<std::string> run(ReplyAssembler& reply, std::vector<RequestOutput> outputs) {
  std::string text;
  for (auto& output : outputs) text += reply.add(0, std::move(output), 0.0);
  EXPECT_TRUE(reply.done());
  text += reply.finish();
  text = std::regex_replace(text, std::regex(R"(,"weight_versions":\[[^\]]*\])"), "");
  if (!reply.stream()) return {text};
  std::vector<std::string> events;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find("\n\n", at);
    EXPECT_EQ(text.substr(at, 6), "data: ");
    events.push_back(text.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

std::string without_chance(std::string json) {
  json = std::regex_replace(json, std::regex(R"("id":"[^"]*")"), R"("id":"")");
  json = std::regex_replace(json, std::regex(R"("created":\d+)"), R"("created":0)");
  return std::regex_replace(json, std::regex(R"("system_fingerprint":"[^"]*")"), R"("system_fingerprint":"")");
}

void expect_recorded(const std::string& name, ReplyAssembler& reply, std::vector<RequestOutput> outputs) {
  const auto text = read_file(UNSPOOL_TEST_DATA "/contract/cases.json");
  const auto document = JsonDocument::parse(*text);
  std::vector<std::string> want;
  for (const JsonValue& one : document->root().elements()) {
    if (one["name"].as_string() != name) continue;
    if (!one["json"].is_null()) want.push_back(one["json"].dump());
    for (const JsonValue& chunk : one["stream"].elements()) {
      want.push_back(chunk.is_string() ? std::string(*chunk.as_string()) : chunk.dump());
    }
  }
  const auto got = run(reply, std::move(outputs));
  ASSERT_EQ(got.size(), want.size()) << name;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(without_chance(got[i]), without_chance(want[i])) << name << " " << i;
}

TEST(ChatReplies, Plain) {
  ChatReply reply(options(false), assistant(), token_text());
  expect_recorded("chat/plain", reply, outputs());
}

TEST(ChatReplies, Logprobs) {
  auto none = assistant();
  none.logprobs = ChatLogprobs{};
  ChatReply zero(options(false), std::move(none), token_text());
  expect_recorded("chat/logprobs", zero, outputs(true));
  auto two = assistant();
  two.logprobs = ChatLogprobs{.top_logprobs = 2};
  ChatReply top(options(false), std::move(two), token_text());
  expect_recorded("chat/top_logprobs", top, outputs(true));
}

TEST(ChatReplies, PlaceholdersKeepTheBytesOfTheToken) {
  auto one = assistant();
  one.logprobs = ChatLogprobs{.top_logprobs = 1};
  one.return_token_ids = true;
  ReplyOptions o = options(false);
  o.prompts = {{1,     9690, 198, 2683, 359, 253,  5356, 5646,  11173, 3365, 3511, 308, 34519, 28,  7018, 411, 407,
                19712, 8182, 2,   198,  1,   4093, 198,  36218, 33662, 30,   2,    198, 1,     520, 9531, 198}};
  ChatReply reply(o, std::move(one), token_text(true));
  expect_recorded("chat/logprobs_ids", reply, outputs(true));
}

TEST(ChatReplies, Streams) {
  auto usage = options(true);
  usage.include_usage = true;
  ChatReply with_usage(usage, assistant(), token_text());
  expect_recorded("chat/stream_usage", with_usage, outputs());
  usage.continuous_usage = true;
  ChatReply continuous(usage, assistant(), token_text());
  expect_recorded("chat/stream_cont", continuous, outputs());
}

TEST(ChatReplies, AStreamOfSeveralBeginsWithAllTheirRoles) {
  auto two = options(true);
  two.n = 2;
  ChatReply reply(two, assistant(), token_text());
  std::vector<RequestOutput> both;
  const std::vector<std::string> first = {"How", " may", " I", " assist"}, second = {"I", "'m", " glad", " I"};
  for (size_t i = 0; i < first.size(); ++i) {
    RequestOutput output;
    for (int index = 0; index < 2; ++index) {
      SequenceDelta delta;
      delta.index = index;
      delta.token_ids = {1};
      delta.text = (index == 0 ? first : second)[i];
      if (i + 1 == first.size()) delta.finish_reason = FinishReason::kLength;
      output.deltas.push_back(delta);
    }
    output.finished = i + 1 == first.size();
    both.push_back(output);
  }
  expect_recorded("chat/stream_n2", reply, both);
}

JsonValue choice_of(const JsonDocument& document) {
  return document.root()["choices"].elements().at(0);
}

TEST(ChatReplies, PromptIdsAndTextComeOnceAtTheTop) {
  auto asked = assistant();
  asked.return_token_ids = asked.return_prompt_text = true;
  asked.conversations = {{"assistant", {}, "the prompt"}};
  ReplyOptions o = options(true);
  o.prompts = {{4, 5}};
  ChatReply reply(o, std::move(asked), token_text());
  const auto events = run(reply, outputs());
  EXPECT_NE(events[0].find(R"("prompt_token_ids":[4,5],"prompt_text":"the prompt")"), std::string::npos);
  for (size_t i = 1; i < events.size(); ++i) EXPECT_EQ(events[i].find("prompt_t"), std::string::npos) << i;
  EXPECT_NE(events[2].find(R"("token_ids":[17])"), std::string::npos);
}

TEST(ChatReplies, EchoesComeFirst) {
  auto echo = assistant();
  echo.conversations = {{"user", "Say hi.", {}}};
  ChatReply plain(options(false), std::move(echo), token_text());
  const auto body = JsonDocument::parse(run(plain, outputs())[0]);
  EXPECT_EQ(choice_of(*body)["message"]["content"].as_string(), "Say hi.Hello! I'm");
  EXPECT_EQ(choice_of(*body)["message"]["role"].as_string(), "user");
  auto again = assistant();
  again.conversations = {{"user", "Say hi.", {}}};
  ChatReply stream(options(true), std::move(again), token_text());
  const auto events = run(stream, outputs());
  EXPECT_NE(events[0].find(R"("delta":{"role":"user","content":""})"), std::string::npos);
  EXPECT_NE(events[1].find(R"("delta":{"content":"Say hi."},"logprobs":null,"finish_reason":null})"),
            std::string::npos);
  EXPECT_NE(events[2].find(R"("content":"Hello")"), std::string::npos);
}

TEST(ChatReplies, BytesOfPartsOfACharacterJoinToItsText) {
  // An emoji of four bytes, a token each.
  auto asked = assistant();
  asked.logprobs = ChatLogprobs{};
  ChatReply reply(options(false), std::move(asked), token_text());
  RequestOutput output;
  SequenceDelta delta;
  delta.text = "\xF0\x9F\x99\x82";
  for (const char byte : delta.text) {
    delta.token_ids.push_back(FakeTokenizer::kFirstByte + static_cast<unsigned char>(byte));
    delta.logprobs.push_back({{delta.token_ids.back(), -1.0f, 1}});
  }
  delta.finish_reason = FinishReason::kStop;
  output.deltas = {delta};
  output.finished = true;
  const auto body = JsonDocument::parse(run(reply, {output})[0]);
  std::string joined;
  for (const JsonValue& entry : choice_of(*body)["logprobs"]["content"].elements()) {
    const auto bytes = entry["bytes"].as_int64_array().value();
    for (const int64_t byte : bytes) joined += static_cast<char>(byte);
  }
  EXPECT_EQ(joined, delta.text);
}

TEST(ChatReplies, WithoutALogprobAStreamHasTokenAndBytesAlone) {
  auto asked = assistant();
  asked.logprobs = ChatLogprobs{.stream = true};
  ChatReply stream(options(true), std::move(asked), token_text());
  EXPECT_NE(run(stream, outputs())[1].find(R"("content":[{"token":"Hello","bytes":[72,101,108,108,111]}])"),
            std::string::npos);
  auto whole = assistant();
  whole.logprobs = ChatLogprobs{};
  ChatReply body(options(false), std::move(whole), token_text());
  EXPECT_NE(run(body, outputs())[0].find(R"("logprob":-9999.0)"), std::string::npos);
}

// "!" separates reasoning from content, "'" a call from what is before it: "Hello" is reasoning, " I" content, "m" the
// name of a call. Every byte of the text is one or the other.
class FakeStream final : public chat::OutputStream {
 public:
  chat::OutputDelta read(std::string_view text, std::span<const int32_t> ids, bool) override {
    chat::OutputDelta delta;
    for (const char c : text) {
      if (c == '!') {
        in_reasoning_ = false;
      } else if (c == '\'') {
        in_call_ = true;
      } else if (in_call_) {
        delta.tool_calls.push_back({0, std::string(1, c), std::nullopt});
      } else {
        auto& part = in_reasoning_ ? delta.reasoning : delta.content;
        part = part.value_or("") + c;
      }
    }
    if (in_reasoning_) reasoning_ += static_cast<int64_t>(ids.size());
    return delta;
  }
  int64_t reasoning_tokens() const override { return reasoning_; }

 private:
  bool in_reasoning_ = true;
  bool in_call_ = false;
  int64_t reasoning_ = 0;
};

class FakeParser final : public chat::OutputParser {
 public:
  explicit FakeParser(bool calls) : calls_(calls) {}
  chat::ParsedOutput parse(std::string_view) const override {
    chat::ParsedOutput out{"Hello", " I", {}};
    if (calls_) out.tool_calls = {{"m", "{}"}};
    if (calls_) out.content.reset();
    return out;
  }
  std::unique_ptr<chat::OutputStream> stream(std::span<const int32_t>) const override {
    return std::make_unique<FakeStream>();
  }
  bool keeps_special_tokens() const override { return true; }
  int64_t count_reasoning_tokens(std::span<const int32_t>) const override { return 1; }

 private:
  bool calls_;
};

ChatReplyOptions parsed(ToolChoice choice = ToolChoice::kAuto, bool calls = true) {
  ChatReplyOptions o = assistant();
  o.parser = std::make_unique<FakeParser>(calls);
  o.counts_reasoning = true;
  o.tools.choice = choice;
  return o;
}

std::string finish_of(ToolChoice choice, FinishReason reason, bool stream, bool calls = true) {
  ChatReply reply(options(stream), parsed(choice, calls), token_text());
  const auto got = run(reply, outputs(false, reason));
  const auto document = JsonDocument::parse(got[stream ? got.size() - 2 : 0]);
  return std::string(choice_of(*document)["finish_reason"].as_string().value_or("null"));
}

TEST(ParsedChatReplies, FinishReasons) {
  using enum FinishReason;
  for (const bool stream : {false, true}) {
    EXPECT_EQ(finish_of(ToolChoice::kAuto, kStop, stream), "tool_calls");
    EXPECT_EQ(finish_of(ToolChoice::kRequired, kStop, stream), "tool_calls");
    EXPECT_EQ(finish_of(ToolChoice::kRequired, kLength, stream), "length");
    EXPECT_EQ(finish_of(ToolChoice::kNamed, kStop, stream), "stop");
    EXPECT_EQ(finish_of(ToolChoice::kAuto, kAbort, stream), "abort");
  }
  EXPECT_EQ(finish_of(ToolChoice::kAuto, kLength, false), "tool_calls");
  EXPECT_EQ(finish_of(ToolChoice::kAuto, kLength, true), "length");
  EXPECT_EQ(finish_of(ToolChoice::kAuto, kStop, false, false), "stop");
  EXPECT_EQ(finish_of(ToolChoice::kRequired, kStop, false, false), "tool_calls");
}

TEST(ParsedChatReplies, Message) {
  ChatReply reply(options(false), parsed(), token_text());
  const std::string body = run(reply, outputs())[0];
  const auto document = JsonDocument::parse(body);
  const JsonValue message = choice_of(*document)["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["reasoning"].as_string(), "Hello");
  EXPECT_TRUE(
      std::regex_search(body, std::regex(R"("tool_calls":\[\{"id":"chatcmpl-tool-[0-9a-f]{16}","type":"function",)"
                                         R"("function":\{"name":"m","arguments":"\{\}"\}\}\],"reasoning")")))
      << body;
  EXPECT_EQ(document->root()["usage"]["completion_tokens_details"].dump(), R"({"reasoning_tokens":1})");
}

TEST(ParsedChatReplies, RequiredAndNamedCallsHaveAnEmptyContentRatherThanNone) {
  for (const auto choice : {ToolChoice::kRequired, ToolChoice::kNamed}) {
    ChatReply reply(options(false), parsed(choice), token_text());
    const auto document = JsonDocument::parse(run(reply, outputs())[0]);
    EXPECT_EQ(choice_of(*document)["message"]["content"].as_string(), "");
  }
}

TEST(ParsedChatReplies, AChoiceThatIsNullDropsTheCallsOfAPlainReply) {
  auto null_choice = parsed();
  null_choice.tools.choice_is_null = true;
  ChatReply reply(options(false), std::move(null_choice), token_text());
  const auto document = JsonDocument::parse(run(reply, outputs(false, FinishReason::kStop))[0]);
  EXPECT_FALSE(choice_of(*document)["message"].find("tool_calls"));
  EXPECT_EQ(choice_of(*document)["finish_reason"].as_string(), "stop");
}

TEST(ParsedChatReplies, Deltas) {
  ReplyOptions o = options(true);
  o.include_usage = o.continuous_usage = true;
  ChatReply reply(o, parsed(), token_text());
  const auto events = run(reply, outputs(false, FinishReason::kStop));
  // Roles, reasoning, content, the call with the end, usage, [DONE]: what is swallowed whole leaves no chunk.
  ASSERT_EQ(events.size(), 6u);
  EXPECT_NE(events[1].find(R"("delta":{"reasoning":"Hello"})"), std::string::npos);
  EXPECT_NE(events[1].find(R"("completion_tokens_details":{"reasoning_tokens":1})"), std::string::npos);
  EXPECT_NE(events[2].find(R"("delta":{"content":" I"})"), std::string::npos);
  EXPECT_TRUE(std::regex_search(
      events[3],
      std::regex(R"("delta":\{"content":null,"tool_calls":\[\{"id":"chatcmpl-tool-[0-9a-f]{16}","type":"function",)"
                 R"("index":0,"function":\{"name":"m"\}\}\]\})")))
      << events[3];
  EXPECT_NE(events[4].find(R"("completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":1}})"),
            std::string::npos);
}

TEST(ParsedChatReplies, EveryTokenHasItsIdAndLogprobWhateverBecomesOfItsText) {
  auto asked = parsed();
  asked.return_token_ids = true;
  asked.logprobs = ChatLogprobs{.stream = true};
  ChatReply reply(options(true), std::move(asked), token_text());
  std::vector<int64_t> ids;
  size_t logprobs = 0;
  for (const std::string& event : run(reply, outputs(true, FinishReason::kStop))) {
    if (event == "[DONE]") continue;
    const auto document = JsonDocument::parse(event);
    const JsonValue choice = choice_of(*document);
    const auto some = choice["token_ids"].as_int64_array();
    if (some) ids.insert(ids.end(), some->begin(), some->end());
    logprobs += choice["logprobs"]["content"].size();
  }
  EXPECT_EQ(ids, std::vector<int64_t>(kTokens.begin(), kTokens.end()));
  EXPECT_EQ(logprobs, kTokens.size());
}

TEST(ParsedChatReplies, HiddenReasoningTakesIdsAndLogprobsAlong) {
  for (const bool stream : {false, true}) {
    auto hidden = parsed();
    hidden.hide_reasoning = hidden.return_token_ids = true;
    hidden.logprobs = ChatLogprobs{.stream = stream};
    ChatReply reply(options(stream), std::move(hidden), token_text());
    const auto events = run(reply, outputs(true));
    EXPECT_EQ(events.size(), stream ? 4u : 1u);  // role, content, call, [DONE]
    for (const std::string& event : events) {
      EXPECT_EQ(event.find("Hello"), std::string::npos) << event;
      if (event == "[DONE]" || (stream && event.find(R"("role")") != std::string::npos)) continue;
      EXPECT_NE(event.find(R"("logprobs":null)"), std::string::npos) << event;
      EXPECT_NE(event.find(R"("token_ids":null)"), std::string::npos) << event;
    }
  }
}

}  // namespace
}  // namespace unspool
