#include <random>

#include "fixture.h"
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

}  // namespace
}  // namespace unspool
