#include <random>

#include "fixture.h"
#include "tokenizer/incremental_detokenizer.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kSpecial = 257;

// Ids 0 to 255 are bytes; 256 begins a character and 257 is special.
std::shared_ptr<const Tokenizer> byte_tokenizer(const std::string& decoder = R"({"type":"ByteLevel"})") {
  TokenizerParts parts;
  parts.model = byte_model(R"(,"x\u00e6\u0139":256)");  // x E6 97
  parts.decoder = decoder;
  parts.added_tokens = R"([{"id":257,"content":"<|end|>","single_word":false,"lstrip":false,"rstrip":false,)"
                       R"("normalized":false,"special":true}])";
  return make_tokenizer(parts);
}

std::vector<std::string> stream(const Ids& prompt, const Ids& ids, bool skip_special_tokens = false) {
  IncrementalDetokenizer detokenizer(byte_tokenizer(), prompt, skip_special_tokens, true);
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.push_back(detokenizer.push(id));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(IncrementalDetokenizer, HoldsBackIncompleteCharacters) {
  EXPECT_EQ(byte_tokenizer()->id_to_bytes(256), "x\xE6\x97");
  EXPECT_EQ(stream({}, {'a', 0xF0, 0x9F, 0x98, 0x80, 'b'}), (Texts{"a", "", "", "", "\U0001F600", "b"}));
  EXPECT_EQ(stream({}, {256, 0xA5, 0xC3}), (Texts{"x", "\u65e5", ""}));
}

TEST(IncrementalDetokenizer, ReplacesWhatCannotBecomeACharacter) {
  EXPECT_EQ(stream({}, {0xFF, 0xE6, 'a'}), (Texts{"\ufffd", "",
                                                  "\ufffd"
                                                  "a"}));
  EXPECT_EQ(stream({}, {0xE6, 0x97, 256}), (Texts{"", "", "\ufffdx"}));
  EXPECT_EQ(stream({}, {0x80, 0x80}), (Texts{"\ufffd", "\ufffd"}));
}

TEST(IncrementalDetokenizer, SkipsSpecialAndUnknownTokens) {
  EXPECT_EQ(stream({}, {'a', kSpecial, 'b'}, true), (Texts{"a", "", "b"}));
  EXPECT_EQ(stream({}, {'a', kSpecial, 'b'}, false), (Texts{"a", "<|end|>", "b"}));
  EXPECT_EQ(stream({}, {-1, 9999, 'b'}), (Texts{"", "", "b"}));
  EXPECT_EQ(stream({}, {0xE6, kSpecial, 0x97, 0xA5}, true), (Texts{"", "", "", "\u65e5"}));
}

TEST(IncrementalDetokenizer, PromptPrimesTheStream) {
  EXPECT_EQ(stream({'a', 'b'}, {'c'}), Texts{"c"});
  EXPECT_EQ(stream({'a', 0xE6, kSpecial, 0x97}, {0xA5}, true), Texts{"\u65e5"});
  EXPECT_EQ(stream({'a', 0xE6, 0x97, 0xA5}, {0xA5}), Texts{"\ufffd"});
  IncrementalDetokenizer spaced(byte_tokenizer("null"), Ids{'a'}, false, true);
  EXPECT_EQ(spaced.push('b'), " b");
  IncrementalDetokenizer fresh(byte_tokenizer("null"), {}, false, true);
  EXPECT_EQ(fresh.push('b'), "b");
}

TEST(IncrementalDetokenizer, EqualsDecodeOfTheWhole) {
  const auto tokenizer = byte_tokenizer();
  std::mt19937 dice(3);
  for (int round = 0; round < 3000; ++round) {
    const bool skip = dice() % 2 == 0;
    IncrementalDetokenizer detokenizer(tokenizer, {}, skip, dice() % 2 == 0);
    Ids ids;
    std::string streamed;
    std::string bytes;
    for (size_t length = dice() % 30; ids.size() < length;) {
      static constexpr int32_t kIds[] = {0xE6, 0x97, 0xA5, 0xF0, 0x9F, 0x98, 0x80, 0xC3, 'a', ' ', 256, kSpecial, 300};
      ids.push_back(dice() % 8 == 0 ? static_cast<int32_t>(dice() % 260) : kIds[dice() % std::size(kIds)]);
      streamed += detokenizer.push(ids.back());
      ASSERT_TRUE(unicode::is_valid(streamed));
      if (!skip || !tokenizer->is_special(ids.back())) bytes += tokenizer->id_to_bytes(ids.back());
    }
    const size_t held_back = unicode::incomplete_suffix(bytes);
    EXPECT_EQ(streamed + (held_back > 0 ? "\ufffd" : ""), tokenizer->decode(ids, skip));
  }
}

// Spaces are written, bytes are tokens, and the first word loses its space (Llama 2).
std::shared_ptr<const Tokenizer> sentencepiece_tokenizer() {
  TokenizerParts parts;
  parts.model =
      R"({"type":"BPE","byte_fallback":true,"vocab":{"\u2581":0,"\u2581leading":1,"\u2581x":2,"y":3,"<0xE6>":4,)"
      R"("<0x97>":5,"<0xA5>":6,"<0x41>":7,"<0xFF>":8,"<s>":9,"<0xEF>":10,"<0xBF>":11,"<0xBD>":12,)"
      R"("\ufffd":13},"merges":[]})";
  parts.decoder = R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},)"
                  R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
  parts.added_tokens = R"([{"id":9,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,)"
                       R"("normalized":false,"special":true}])";
  return make_tokenizer(parts);
}

Texts sentencepiece_stream(const Ids& prompt, const Ids& ids, bool skip_special_tokens = true) {
  IncrementalDetokenizer detokenizer(sentencepiece_tokenizer(), prompt, skip_special_tokens, true);
  Texts texts;
  for (const int32_t id : ids) texts.push_back(detokenizer.push(id));
  return texts;
}

TEST(SentencePieceDetokenizer, OnlyTheFirstWordLosesItsSpace) {
  EXPECT_EQ(sentencepiece_stream({}, {0, 1, 2}), (Texts{"", " leading", " x"}));
  EXPECT_EQ(sentencepiece_stream({9}, {1, 2}), (Texts{"leading", " x"}));
  EXPECT_EQ(sentencepiece_stream({9}, {1, 2}, false), (Texts{" leading", " x"}));
  EXPECT_EQ(sentencepiece_stream({9, 2}, {0, 1, 9, 2}), (Texts{" ", " leading", "", " x"}));
  EXPECT_EQ(sentencepiece_stream({2, 9, 9}, {1}), Texts{" leading"});  // what is skipped is no first word
  EXPECT_EQ(sentencepiece_stream(Ids(40, 0), {1, 3}), (Texts{" leading", "y"}));
}

TEST(SentencePieceDetokenizer, BytesBecomeCharacters) {
  EXPECT_EQ(sentencepiece_stream({2}, {4, 5, 6, 3}), (Texts{"", "", "\u65e5", "y"}));
  EXPECT_EQ(sentencepiece_stream({2, 4, 5}, {6, 2}), (Texts{"\u65e5", " x"}));  // begun in the prompt
  EXPECT_EQ(sentencepiece_stream({4, 5}, {6, 2}), (Texts{"\u65e5", " x"}));
  EXPECT_EQ(sentencepiece_stream({2}, {4, 5, 2}), (Texts{"", "", "\ufffd\ufffd x"}));
  EXPECT_EQ(sentencepiece_stream({2}, {8, 8, 8, 7, 3}), (Texts{"", "", "", "", "\ufffd\ufffd\ufffd\ufffdy"}));
}

// Decoded as a whole the letter would be U+FFFD too, but it has gone out: what the reference does then.
TEST(SentencePieceDetokenizer, ARunThatBreaksLate) {
  EXPECT_EQ(sentencepiece_stream({2}, {7, 8, 3, 2}), (Texts{"A", "", "y", " x"}));
}

// Each token decodes those since the last that showed: here that would be all of them.
TEST(SentencePieceDetokenizer, ALongBrokenRunTakesNoTime) {
  IncrementalDetokenizer detokenizer(sentencepiece_tokenizer(), Ids{2}, true, true);
  constexpr int kTokens = 200'000;
  for (int i = 0; i < kTokens; ++i) EXPECT_EQ(detokenizer.push(8), "");
  EXPECT_EQ(detokenizer.push(3).size(), 3u * kTokens + 1);
}

// U+FFFD that a model writes, in bytes or as a token, is held back like what may become another character.
TEST(SentencePieceDetokenizer, ManyReplacementCharactersTakeNoTime) {
  EXPECT_EQ(sentencepiece_stream({2}, {10, 11, 12, 13, 3}), (Texts{"", "", "", "", "\ufffd\ufffdy"}));
  EXPECT_EQ(sentencepiece_stream({2}, {10, 11, 12, 10, 11, 12, 8, 3}).back(),
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdy");  // a broken run, as it is decoded
  EXPECT_EQ(sentencepiece_stream({}, {10, 11, 12, 4, 5, 6}), (Texts{"", "", "", "", "", "\ufffd\u65e5"}));
  IncrementalDetokenizer detokenizer(sentencepiece_tokenizer(), Ids{2}, true, true);
  constexpr int kCharacters = 50'000;
  for (int i = 0; i < kCharacters; ++i)
    for (const int32_t id : {10, 11, 12, 13}) EXPECT_EQ(detokenizer.push(id), "");
  EXPECT_EQ(detokenizer.push(3).size(), 2u * 3 * kCharacters + 1);
}

// Pieces of characters, in a decoder of several steps: the last tokens are shown once they are whole.
TEST(IncrementalDetokenizer, CharactersInPiecesBehindOtherSteps) {
  const auto tokenizer = byte_tokenizer(
      R"({"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Replace","pattern":{"String":"q"},"content":"Q"}]})");
  ASSERT_FALSE(tokenizer->joins_bytes());
  IncrementalDetokenizer detokenizer(tokenizer, {}, false, true);
  Texts texts;
  for (const int32_t id : {int32_t{'q'}, 256, 0xA5, 0xFF, 0xEF, 0xBF, 0xBD, 0xE6, int32_t{'a'}})
    texts.push_back(detokenizer.push(id));
  EXPECT_EQ(texts, (Texts{"Q", "", "x\u65e5", "", "", "", "", "", "\ufffd\ufffd\ufffda"}));
}

}  // namespace
}  // namespace unspool
