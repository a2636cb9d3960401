#include "fixture.h"

namespace unspool {
namespace {

using Ids = std::vector<int32_t>;

Ids encode(const std::string& model, std::string_view text) {
  TokenizerParts parts;
  parts.model = R"({"type":"Unigram",)" + model + "}";
  return make_tokenizer(parts)->encode(text, false);
}

TEST(Unigram, TakesTheLikeliestWay) {
  const std::string model = R"("unk_id":0,"vocab":[["<unk>",0],["a",-1],["b",-1],["ab",-1.5],["abc",-9],["c",-1]])";
  EXPECT_EQ(encode(model, "ab"), Ids{3});
  EXPECT_EQ(encode(model, "abc"), (Ids{3, 5}));
  EXPECT_EQ(encode(model, "ba"), (Ids{2, 1}));
  EXPECT_EQ(encode(model, ""), Ids{});
}

// Of ways that score alike, the one whose last token begins further left.
TEST(Unigram, TiesGoToTheTokenThatWasFoundFirst) {
  EXPECT_EQ(encode(R"("unk_id":0,"vocab":[["<unk>",0],["A",-1],["AA",-2]])", "AAA"), (Ids{1, 2}));
}

// The score is a double: in float the two ways below would be alike.
TEST(Unigram, ScoresAreDoubles) {
  const auto model = [](const char* score) {
    return R"("unk_id":0,"vocab":[["<unk>",0],["a",-10.000000001],["b",-10],["ab",)" + std::string(score) + "]]";
  };
  EXPECT_EQ(encode(model("-20.0000000005"), "ab"), Ids{3});
  EXPECT_EQ(encode(model("-20.0000000015"), "ab"), (Ids{1, 2}));
}

TEST(Unigram, UnknownCharactersAreFused) {
  const std::string model = R"("unk_id":0,"vocab":[["<unk>",0],["a",-1],["xyz",-90]])";
  EXPECT_EQ(encode(model, "a\u65e5\u672cab"), (Ids{1, 0, 1, 0}));
  EXPECT_EQ(encode(model, "axyza"),
            (Ids{1, 2, 1}));  // three unknown ones, less likely than the token, but put together
  EXPECT_EQ(encode(R"("vocab":[["a",-1]])", "bab"), Ids{0});  // no unknown token: they vanish
}

TEST(Unigram, ByteFallback) {
  std::string vocab = R"(["<unk>",0],["a",-1],["<0xC3>",0],["<0xA9>",0],["<0x0A>",0])";
  const std::string model = R"("unk_id":0,"byte_fallback":true,"vocab":[)" + vocab + "]";
  EXPECT_EQ(encode(model, "a\u00e9\na"), (Ids{1, 2, 3, 4, 1}));
  EXPECT_EQ(encode(model, "\u00e8"), Ids{0});        // a byte is missing
  EXPECT_EQ(encode(model, "\u00e9\u00e8"), Ids{0});  // unknown ones are one text, and spelt as one
}

TEST(Unigram, RefusesWhatIsMalformed) {
  for (const char* model : {R"("vocab":{})", R"("vocab":[["a"]])", R"("vocab":[["a","b"]])", R"("vocab":[[1,2]])",
                            R"("vocab":[["a",-1]],"unk_id":1)", R"("vocab":[["a",-1]],"unk_id":-1)",
                            R"("vocab":[["a",-1]],"byte_fallback":3)", R"("unk_id":0)"}) {
    TokenizerParts parts;
    parts.model = R"({"type":"Unigram",)" + std::string(model) + "}";
    EXPECT_NE(load_error(parts).find("model Unigram"), std::string::npos) << model << ": " << load_error(parts);
  }
}

// Files older than the field "type".
TEST(Unigram, IsKnownByItsVocabulary) {
  TokenizerParts parts;
  parts.model = R"({"unk_id":0,"vocab":[["<unk>",0],["a",-1]]})";
  EXPECT_EQ(make_tokenizer(parts)->encode("ab", false), (Ids{1, 0}));
}

}  // namespace
}  // namespace unspool
