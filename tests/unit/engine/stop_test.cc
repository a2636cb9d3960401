#include <gtest/gtest.h>

#include "engine/stop_check.h"
#include "engine/stop_strings.h"

namespace unspool {
namespace {

using Ids = std::vector<int32_t>;

SamplingParams params_with(int max_tokens) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  params.eos_token_id = 2;
  return params;
}

TEST(StopCheck, PrimaryEosHasNoReasonToTell) {
  const auto stop = check_stop(params_with(9), 3, Ids{5, 2}, 0);
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->reason, FinishReason::kStop);
  EXPECT_TRUE(stop->by_token);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(stop->detail));
  EXPECT_FALSE(check_stop(params_with(9), 3, Ids{2, 5}, 0));
}

TEST(StopCheck, IgnoreEosCoversTheModelsIdsNotTheUsers) {
  auto params = params_with(9);
  params.extra_eos_token_ids = {7};
  params.stop_token_ids = {9};
  EXPECT_EQ(std::get<int32_t>(check_stop(params, 3, Ids{7}, 0)->detail), 7);
  params.ignore_eos = true;
  EXPECT_FALSE(check_stop(params, 3, Ids{2}, 0));
  EXPECT_FALSE(check_stop(params, 3, Ids{7}, 0));
  EXPECT_EQ(std::get<int32_t>(check_stop(params, 3, Ids{9}, 0)->detail), 9);
}

TEST(StopCheck, EosComesBeforeLength) {
  EXPECT_EQ(check_stop(params_with(2), 3, Ids{5, 2}, 0)->reason, FinishReason::kStop);
  EXPECT_EQ(check_stop(params_with(2), 3, Ids{5, 5}, 0)->reason, FinishReason::kLength);
  EXPECT_EQ(check_stop(params_with(9), 3, Ids{5, 5}, 5)->reason, FinishReason::kLength);
}

TEST(StopCheck, RepetitionWaitsForMinTokens) {
  auto params = params_with(99);
  params.repetition_detection = RepetitionDetection{3, 1, 3};
  const Ids repeats{4, 5, 6, 5, 6, 5, 6};
  EXPECT_EQ(check_stop(params, 3, repeats, 0)->reason, FinishReason::kRepetition);
  EXPECT_EQ(std::get<std::string>(check_stop(params, 3, repeats, 0)->detail), "repetition_detected");
  params.min_tokens = 8;
  EXPECT_FALSE(check_stop(params, 3, repeats, 0));
}

TEST(Repetition, FindsPatternsOfTheSizesAllowed) {
  EXPECT_TRUE(ends_in_repetition({1, 1, 3}, Ids{9, 4, 4, 4}));
  EXPECT_FALSE(ends_in_repetition({1, 1, 3}, Ids{4, 4, 9, 4, 4}));
  EXPECT_FALSE(ends_in_repetition({3, 3, 2}, Ids{4, 4, 4, 4}));
  EXPECT_TRUE(ends_in_repetition({3, 2, 2}, Ids{4, 4, 4, 4}));
  EXPECT_TRUE(ends_in_repetition({3, 0, 2}, Ids{1, 2, 3, 1, 2, 3}));
  EXPECT_FALSE(ends_in_repetition({0, 0, 2}, Ids{4, 4, 4, 4}));
}

// Feeds the pieces and returns all that came out, with the match after a bar.
std::string feed(const std::vector<std::string>& stops, bool include, const std::vector<std::string>& pieces,
                 int no_search_before = 0) {
  StopStringMatcher matcher(stops, include);
  std::string out;
  for (int i = 0; i < static_cast<int>(pieces.size()); ++i) {
    const auto match = matcher.push(pieces[i], i >= no_search_before);
    out += matcher.take_ready();
    if (match) return out + "|" + stops[*match];
  }
  return out + matcher.take_rest();
}

TEST(StopStrings, CutBeforeOrAfter) {
  EXPECT_EQ(feed({"lo w"}, false, {"hel", "lo", " wor", "ld"}), "hel|lo w");
  EXPECT_EQ(feed({"lo w"}, true, {"hel", "lo", " wor", "ld"}), "hello w|lo w");
  EXPECT_EQ(feed({"xyz"}, false, {"hel", "lo xy"}), "hello xy");
}

TEST(StopStrings, TheEarliestEndWinsThenTheList) {
  EXPECT_EQ(feed({"cdef", "de"}, false, {"abcdef"}), "abc|de");
  EXPECT_EQ(feed({"de", "cde"}, false, {"abcdef"}), "abc|de");
  EXPECT_EQ(feed({"cde", "de"}, false, {"abcdef"}), "ab|cde");
}

TEST(StopStrings, HoldBackCountsCharacters) {
  const std::vector<std::string> stops{"äöü"};
  StopStringMatcher matcher(stops, false);
  matcher.push("éàab", true);
  EXPECT_EQ(matcher.take_ready(), "éà");
  matcher.push("ä", true);
  EXPECT_EQ(matcher.take_ready(), "a");
  EXPECT_EQ(matcher.take_rest(), "bä");
  StopStringMatcher including(stops, true);
  including.push("abä", true);
  EXPECT_EQ(including.take_ready(), "abä");
}

TEST(StopStrings, AreNotFoundInTextThatWasNotSearched) {
  EXPECT_EQ(feed({"b"}, false, {"ab", "c", "b"}, 1), "abc|b");
  EXPECT_EQ(feed({"bc"}, false, {"ab", "cd"}, 1), "a|bc");
  EXPECT_EQ(feed({""}, false, {"ab"}), "ab");
}

TEST(StopStrings, FindMatchesFarIntoALongText) {
  for (const bool include : {false, true}) {
    std::vector<std::string> pieces;
    std::string all;
    for (int i = 0; i < 3000; ++i) pieces.push_back(std::to_string(i) + "ü ");
    for (const auto& piece : pieces) all += piece;
    pieces.push_back("the e");
    pieces.push_back("nd, and more");
    EXPECT_EQ(feed({"ü the end", "never"}, include, pieces).substr(0, all.size() - 3), all.substr(0, all.size() - 3));
    EXPECT_EQ(feed({"ü the end"}, include, pieces),
              (include ? all + "the end" : all.substr(0, all.size() - 3)) + "|ü the end");
  }
}

}  // namespace
}  // namespace unspool
