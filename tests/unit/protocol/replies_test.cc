// Replies put together from engine outputs are, byte for byte, the recorded ones plus our additions.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "base/file.h"
#include "fake_tokenizer.h"
#include "json/json.h"
#include "protocol/completion_reply.h"
#include "protocol/generate_reply.h"

namespace unspool {
namespace {

const std::vector<int32_t> kPrompt = {504, 3575, 282, 4649, 314};
const std::vector<int32_t> kTokens = {7042, 30, 198, 198};
const std::vector<std::string> kTexts = {" Paris", ".", "\n", "\n"};
const std::vector<float> kValues = {-0.26282957196235657f, -0.3889368772506714f, -0.993255078792572f,
                                    -0.8522377014160156f};

std::vector<std::string> recorded(const std::string& name) {
  const auto text = read_file(UNSPOOL_TEST_DATA "/contract/replies.json");
  const auto document = JsonDocument::parse(*text);
  std::vector<std::string> out;
  for (const JsonValue& one : document->root()[name].elements()) out.emplace_back(*one.as_string());
  return out;
}

// Takes away what we add to the reference's replies.
std::string without_additions(std::string json, bool versions) {
  json = std::regex_replace(json, std::regex(R"(,"token":"token_id:\d+")"), "");
  if (versions) json = std::regex_replace(json, std::regex(R"(,"weight_versions":\[[^\]]*\])"), "");
  return json;
}

std::vector<PositionLogprobs> prompt_logprobs() {
  return {{},
          {{3575, -11.586777687072754f, 3056}, {29, -0.83677738904953f, 1}},
          {{282, -0.33981335163116455f, 1}},
          {{4649, -2.4013783931732178f, 2}, {260, -2.2138783931732178f, 1}},
          {{314, -0.4500173330307007f, 1}}};
}

// One token an output, as the engine streams them.
std::vector<RequestOutput> outputs(bool logprobs) {
  std::vector<RequestOutput> out(kTokens.size());
  for (size_t i = 0; i < kTokens.size(); ++i) {
    SequenceDelta delta;
    delta.token_ids = {kTokens[i]};
    delta.text = kTexts[i];
    if (logprobs) delta.logprobs = {{{kTokens[i], kValues[i], 1}}};
    if (i + 1 == kTokens.size()) {
      delta.finish_reason = FinishReason::kLength;
      delta.weight_versions = {{"default", 0, 4}};
      out[i].finished = true;
    }
    out[i].deltas.push_back(std::move(delta));
  }
  return out;
}

ReplyOptions options(std::string id, bool stream) {
  ReplyOptions o;
  o.id = std::move(id);
  o.model = "smollm2";
  o.created = 7;
  o.prompts = {kPrompt};
  o.stream = stream;
  o.system_fingerprint = "fp";
  return o;
}

TokenText token_text(bool ids = false) {
  return TokenText(std::make_shared<FakeTokenizer>(), ids);
}

std::vector<std::string> events(const std::string& stream) {
  std::vector<std::string> out;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    EXPECT_EQ(stream.substr(at, 6), "data: ");
    out.push_back(stream.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return out;
}

std::vector<std::string> run(ReplyAssembler& reply, std::vector<RequestOutput> outputs) {
  std::string text;
  for (auto& output : outputs) text += reply.add(0, std::move(output), 0.0);
  EXPECT_TRUE(reply.done());
  text += reply.finish();
  return reply.stream() ? events(text) : std::vector<std::string>{text};
}

void expect_recorded(const std::string& name, ReplyAssembler& reply, std::vector<RequestOutput> outputs) {
  const auto want = recorded(name);
  const auto got = run(reply, std::move(outputs));
  ASSERT_EQ(got.size(), want.size()) << name;
  const bool generate = name.starts_with("generate");
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(without_additions(got[i], !generate), want[i]) << name << " " << i;
}

TEST(CompletionReplies, Plain) {
  CompletionReply reply(options("cmpl-x", false), {}, token_text());
  expect_recorded("completions/plain", reply, outputs(false));
}

TEST(CompletionReplies, Logprobs) {
  CompletionReply zero(options("cmpl-x", false), {.logprobs = 0}, token_text());
  expect_recorded("completions/logprobs0", zero, outputs(true));
  CompletionReply three(options("cmpl-x", false), {.logprobs = 3}, token_text());
  auto more = outputs(true);
  const auto add = [&](int at, TokenLogprob entry) { more[at].deltas[0].logprobs[0].push_back(entry); };
  add(0, {260, -2.762829542160034f, 2});
  add(0, {2878, -4.387829780578613f, 3});
  add(1, {28, -1.6389368772506714f, 2});
  add(1, {300, -3.013936996459961f, 3});
  add(2, {378, -2.493255138397217f, 2});
  add(2, {7042, -2.618255138397217f, 3});
  add(3, {29, -2.2272377014160156f, 2});
  add(3, {301, -2.4772377014160156f, 3});
  expect_recorded("completions/logprobs3", three, std::move(more));
}

TEST(CompletionReplies, Echo) {
  CompletionReplyOptions echo{.echo = true};
  echo.prompt_texts = {"The capital of France is"};
  CompletionReply plain(options("cmpl-x", false), echo, token_text());
  expect_recorded("completions/echo", plain, outputs(false));
  auto with_logprobs = echo;
  with_logprobs.logprobs = 1;
  auto scored = outputs(true);
  scored[0].prompt_logprobs = prompt_logprobs();
  CompletionReply logprobs(options("cmpl-x", false), with_logprobs, token_text());
  expect_recorded("completions/echo_logprobs", logprobs, scored);
  auto with_ids = echo;
  with_ids.return_token_ids = true;
  CompletionReply ids(options("cmpl-x", false), with_ids, token_text());
  expect_recorded("completions/echo_return_ids", ids, outputs(false));
}

TEST(CompletionReplies, EchoWithoutGeneration) {
  CompletionReplyOptions echo{.logprobs = 0, .echo = true, .scores_only = true};
  echo.prompt_texts = {"The capital of France is"};
  RequestOutput one;
  one.prompt_logprobs = prompt_logprobs();
  SequenceDelta delta;
  delta.token_ids = {7042};
  delta.text = " Paris";
  delta.logprobs = {{{7042, -0.25f, 1}}};
  delta.finish_reason = FinishReason::kLength;
  one.deltas = {delta};
  one.finished = true;
  CompletionReply reply(options("cmpl-x", false), echo, token_text());
  const auto document = JsonDocument::parse(run(reply, {one})[0]);
  const JsonValue choice = document->root()["choices"].elements()[0];
  EXPECT_EQ(choice["text"].as_string(), "The capital of France is");
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 5u);
  EXPECT_EQ(document->root()["usage"]["completion_tokens"].as_int64(), 1);
}

TEST(CompletionReplies, PromptLogprobs) {
  auto scored = outputs(false);
  scored[0].prompt_logprobs = prompt_logprobs();
  CompletionReply reply(options("cmpl-x", false), {}, token_text());
  expect_recorded("completions/prompt_logprobs", reply, scored);
}

TEST(CompletionReplies, Stream) {
  CompletionReply plain(options("cmpl-x", true), {}, token_text());
  expect_recorded("completions/stream", plain, outputs(false));
  auto usage = options("cmpl-x", true);
  usage.include_usage = usage.continuous_usage = true;
  CompletionReply with_usage(usage, {}, token_text());
  expect_recorded("completions/stream_usage_cont", with_usage, outputs(false));
  CompletionReplyOptions echo{.logprobs = 0, .echo = true};
  echo.prompt_texts = {"The capital of France is"};
  auto scored = outputs(true);
  scored[0].prompt_logprobs = prompt_logprobs();
  CompletionReply echoed(options("cmpl-x", true), echo, token_text());
  expect_recorded("completions/stream_echo", echoed, scored);
}

TEST(CompletionReplies, StreamIntervalMergesAllButFirstAndLast) {
  auto slow = options("cmpl-x", true);
  slow.stream_interval = 2;
  CompletionReply reply(slow, {}, token_text());
  EXPECT_EQ(run(reply, outputs(false)).size(), 4u);  // " Paris", ".\n", "\n", [DONE]
}

TEST(CompletionReplies, TokensBecomeIdsAndSpansOfWeights) {
  auto two = options("cmpl-x", false);
  two.n = 2;
  CompletionReply reply(two, {.logprobs = 0, .return_token_ids = true}, token_text(true));
  const std::vector<std::vector<int32_t>> ids = {{38034, 28, 527, 314}, {7042, 30, 2838, 4197}};
  const std::vector<std::vector<float>> values = {
      {-7.075329780578613f, -1.1072371006011963f, -1.785478949546814f, -0.33572253584861755f},
      {-0.26282957196235657f, -0.3889368772506714f, -6.449312686920166f, -5.571197509765625f}};
  RequestOutput output;
  for (int sample = 0; sample < 2; ++sample) {
    SequenceDelta delta;
    delta.index = sample;
    delta.text = sample == 0 ? " Lyon, which is" : " Paris. No king";
    delta.token_ids = ids[sample];
    for (int i = 0; i < 4; ++i) delta.logprobs.push_back({{ids[sample][i], values[sample][i], 1}});
    delta.finish_reason = FinishReason::kLength;
    delta.weight_versions = {{"default", 0, 4}};
    output.deltas.push_back(delta);
  }
  output.finished = true;
  const std::string body = run(reply, {output})[0];
  EXPECT_EQ(without_additions(body, true), recorded("completions/trl_style")[0]);
  EXPECT_NE(body.find(R"("weight_versions":[{"version":"default","start":0,"end":4}])"), std::string::npos);
}

TEST(CompletionReplies, KeptMassAndFloors) {
  auto out = outputs(true);
  for (auto& o : out) o.deltas[0].kept_logprobs = {-0.5f};
  out[1].deltas[0].logprobs[0].push_back({28, -HUGE_VALF, 2});
  CompletionReply reply(options("cmpl-x", false), {.logprobs = 1, .kept_mass = true}, token_text());
  const std::string body = run(reply, out)[0];
  EXPECT_NE(body.find(R"("kept_logprob":[-0.5,-0.5,-0.5,-0.5])"), std::string::npos);
  EXPECT_NE(body.find(R"(",":-9999.0)"), std::string::npos);
}

TEST(CompletionReplies, NanIsRefusedNotSent) {
  auto out = outputs(true);
  out[1].deltas[0].logprobs[0][0].logprob = NAN;
  CompletionReply reply(options("cmpl-x", false), {.logprobs = 0}, token_text());
  run(reply, out);
  ASSERT_TRUE(reply.error());
  EXPECT_EQ(reply.error()->status, 400);
}

TEST(CompletionReplies, EqualStringsCollapseToTheLastValue) {
  auto out = outputs(true);
  // Two lone continuation bytes show as "", and so does an id without a piece.
  out[0].deltas[0].logprobs[0] = {{7042, -1.0f, 1}, {45000, -2.0f, 2}, {45001, -3.0f, 3}};
  CompletionReply reply(options("cmpl-x", false), {.logprobs = 5}, token_text());
  EXPECT_NE(run(reply, out)[0].find(R"({" Paris":-1.0,"":-3.0})"), std::string::npos);
}

TEST(CompletionReplies, ErrorsEndStreamsAndReplies) {
  RequestOutput failed;
  failed.error = invalid_argument("a prompt with é", "prompt");
  failed.finished = true;
  CompletionReply stream(options("cmpl-x", true), {}, token_text());
  const auto chunks = run(stream, {failed});
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(
      chunks[0],
      R"({"error": {"message": "a prompt with \u00e9", "type": "BadRequestError", "param": "prompt", "code": 400}})");
  EXPECT_EQ(chunks[1], "[DONE]");
  RequestOutput broken;
  SequenceDelta delta;
  delta.finish_reason = FinishReason::kError;
  broken.deltas = {delta};
  CompletionReply plain(options("cmpl-x", false), {}, token_text());
  run(plain, {broken});
  EXPECT_EQ(plain.error()->status, 500);
}

TEST(GenerateReplies, Plain) {
  GenerateReply logprobs(options("generate-tokens-x", false), {.logprobs = 0}, token_text(true));
  expect_recorded("generate/logprobs0", logprobs, outputs(true));
  auto scored = outputs(false);
  scored[0].prompt_logprobs = prompt_logprobs();
  GenerateReply prompt(options("generate-tokens-x", false), {}, token_text(true));
  expect_recorded("generate/prompt_logprobs", prompt, scored);
  GenerateReply ids(options("generate-tokens-x", false), {.return_token_ids = true}, token_text(true));
  expect_recorded("generate/return_ids", ids, outputs(false));
  GenerateReply text(options("generate-tokens-x", false), {.mode = OutputMode::kText}, token_text());
  expect_recorded("generate/text_mode", text, outputs(false));
}

TEST(GenerateReplies, Stream) {
  GenerateReply plain(options("generate-tokens-x", true), {}, token_text(true));
  expect_recorded("generate/stream", plain, outputs(false));
  auto with_usage = options("generate-tokens-x", true);
  with_usage.include_usage = true;
  GenerateReply usage(with_usage, {}, token_text(true));
  expect_recorded("generate/stream_usage", usage, outputs(false));
  GenerateReply logprobs(options("generate-tokens-x", true), {.logprobs = 1}, token_text(true));
  expect_recorded("generate/stream_logprobs", logprobs, outputs(true));
}

TEST(GenerateReplies, TokensCarryTheirIdsAsStrings) {
  GenerateReply reply(options("generate-tokens-x", false), {.logprobs = 1}, token_text(true));
  const std::string body = run(reply, outputs(true))[0];
  EXPECT_NE(body.find(R"("token":"token_id:7042")"), std::string::npos);
}

TEST(TokenTexts, ACharacterShowsWhereItIsComplete) {
  const TokenText text = token_text();
  const auto byte = [](int b) { return FakeTokenizer::kFirstByte + b; };
  // U+1F642 is f0 9f 99 82.
  TokenContext context;
  context.push(7042);
  for (const int part : {0xF0, 0x9F, 0x99}) {
    EXPECT_EQ(text.decoded(byte(part), context.tokens()), "");
    context.push(byte(part));
  }
  EXPECT_EQ(text.decoded(byte(0x82), context.tokens()), "\xF0\x9F\x99\x82");
  EXPECT_EQ(text.decoded(byte('a'), context.tokens()), "a");
  EXPECT_EQ(text.decoded(byte(0x82), {}), "");
}

}  // namespace
}  // namespace unspool
