#include "engine/output_processor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core_harness.h"

namespace unspool {
namespace {

// Letters a..z are 0..25; the rest are a space, the bytes of ä (C3 A4), of an emoji (F0 9F 98 80), and a special token.
constexpr int32_t kSpace = 26, kA1 = 27, kA2 = 28, kEmoji = 29, kSpecial = 33;

std::shared_ptr<const Tokenizer> tokenizer() {
  std::string vocab;
  for (int i = 0; i < 26; ++i) vocab += fmt::format("\"{}\": {}, ", static_cast<char>('a' + i), i);
  const std::string json = R"({"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
    "added_tokens": [{"id": 33, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": {)" +
                           vocab + R"("Ġ": 26, "Ã": 27, "¤": 28, "ð": 29, "Ł": 30, "ĺ": 31, "Ģ": 32}, "merges": []}})";
  auto loaded = Tokenizer::from_json(json);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return std::move(loaded).value();
}

std::vector<int32_t> ids(std::string_view letters) {
  std::vector<int32_t> out;
  for (const char c : letters) out.push_back(c == ' ' ? kSpace : c - 'a');
  return out;
}

struct Outcome {
  std::string text;
  std::vector<std::string> pieces;
  std::optional<Stop> stop;
  size_t num_tokens = 0;
};

Outcome process(const SamplingParams& params, const std::vector<int32_t>& tokens) {
  EngineRequest spec;
  spec.prompt_token_ids = ids("ab");
  spec.params = params;
  Request request(1, spec, 0, {});
  OutputProcessor processor(tokenizer(), request);
  Sequence& sequence = request.sequence(0);
  Outcome outcome;
  for (const int32_t token : tokens) {
    sequence.append_token(token, "default");
    SequenceDelta delta;
    auto stop = check_stop(request.params(), request.prompt_length(), sequence.output_token_ids, 0);
    outcome.stop = processor.push(sequence, stop, delta);
    outcome.text += delta.text;
    outcome.pieces.push_back(delta.text);
    ++outcome.num_tokens;
    if (outcome.stop) return outcome;
  }
  SequenceDelta delta;
  processor.flush(delta);
  outcome.text += delta.text;
  return outcome;
}

SamplingParams params_with(std::vector<std::string> stop) {
  SamplingParams params;
  params.max_tokens = 100;
  params.stop = std::move(stop);
  params.eos_token_id = kSpecial;
  return params;
}

TEST(OutputProcessor, EmitsWholeCharacters) {
  const auto outcome = process(params_with({}), {0, kA1, kA2, kEmoji, kEmoji + 1, kEmoji + 2, kEmoji + 3, 1, kA1});
  EXPECT_EQ(outcome.text, "aä😀b");  // what stays incomplete is lost
  EXPECT_EQ(outcome.pieces, std::vector<std::string>({"a", "", "ä", "", "", "", "😀", "b", ""}));
}

TEST(OutputProcessor, CutsAtAStopStringAndKeepsTheTokenThatCompletesIt) {
  const auto outcome = process(params_with({"lo w"}), ids("hello world"));
  EXPECT_EQ(outcome.text, "hel");
  EXPECT_EQ(outcome.num_tokens, 7u);
  EXPECT_EQ(outcome.stop->reason, FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(outcome.stop->detail), "lo w");
  auto including = params_with({"lo w"});
  including.include_stop_str_in_output = true;
  EXPECT_EQ(process(including, ids("hello world")).text, "hello w");
}

TEST(OutputProcessor, FindsAStopStringOfCharactersThatTokensSplit) {
  const auto outcome = process(params_with({"ä😀"}), {0, 1, kA1, kA2, kEmoji, kEmoji + 1, kEmoji + 2, kEmoji + 3, 2});
  EXPECT_EQ(outcome.text, "ab");
  EXPECT_EQ(outcome.num_tokens, 8u);
}

TEST(OutputProcessor, HoldsBackUntilTheEnd) {
  const auto outcome = process(params_with({"xyz"}), ids("abcd"));
  EXPECT_EQ(outcome.pieces, std::vector<std::string>({"", "", "a", "b"}));
  EXPECT_EQ(outcome.text, "abcd");
  auto capped = params_with({"xyz"});
  capped.max_tokens = 4;
  EXPECT_EQ(process(capped, ids("abcd")).text, "abcd");
}

TEST(OutputProcessor, AStopStringAtTheCapIsAStop) {
  auto capped = params_with({"cd"});
  capped.max_tokens = 4;
  const auto outcome = process(capped, ids("abcd"));
  EXPECT_EQ(outcome.stop->reason, FinishReason::kStop);
  EXPECT_EQ(outcome.text, "ab");
}

TEST(OutputProcessor, StopStringsWaitForMinTokens) {
  auto params = params_with({"b"});
  params.min_tokens = 2;
  const auto outcome = process(params, ids("abcbd"));
  EXPECT_EQ(outcome.text, "abc");
  EXPECT_EQ(outcome.num_tokens, 4u);
}

TEST(OutputProcessor, LeavesTheEosOutOfTheText) {
  auto tokens = ids("ab");
  tokens.push_back(kSpecial);
  auto params = params_with({});
  EXPECT_EQ(process(params, tokens).text, "ab");
  params.include_stop_str_in_output = true;
  EXPECT_EQ(process(params, tokens).text, "ab");
  params.skip_special_tokens = false;
  EXPECT_EQ(process(params, tokens).text, "ab<end>");
  params.include_stop_str_in_output = false;
  EXPECT_EQ(process(params, tokens).text, "ab");
  params.stop_token_ids = {1};
  EXPECT_EQ(process(params, tokens).text, "a");
}

TEST(OutputProcessor, WithoutTextStopStringsStillStop) {
  auto params = params_with({"bc"});
  params.detokenize = false;
  const auto outcome = process(params, ids("abcd"));
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(outcome.num_tokens, 3u);
}

TEST(OutputProcessor, AnAbortGivesTheTextHeldBack) {
  CoreHarness harness(CoreHarness::roomy(), tokenizer());
  auto request = request_of(random_prompt(5, 1), 100);
  request.params.stop = {"a stop that never comes"};
  std::vector<int32_t> letters(26);
  for (int i = 0; i < 26; ++i) letters[i] = i;
  request.params.allowed_token_ids = letters;
  request.external_id = "x";
  Record record;
  harness.add(record, request);
  for (int i = 0; i < 10; ++i) harness.core.step();
  EXPECT_EQ(record.samples[0].text, "");
  harness.core.abort({"x"});
  EXPECT_EQ(record.samples[0].text, tokenizer()->decode(record.samples[0].token_ids, true));
  EXPECT_EQ(record.samples[0].text.size(), 10u);
}

}  // namespace
}  // namespace unspool
