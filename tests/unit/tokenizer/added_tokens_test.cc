#include "fixture.h"

namespace unspool {
namespace {

using Pieces = std::vector<std::string>;

// One entry of added_tokens; `flags` are names out of lstrip, rstrip, single_word, normalized, special.
std::string added(const std::string& content, const std::string& flags = "") {
  std::string json = R"({"id":0,"content":")" + content + "\"";
  for (const std::string name : {"lstrip", "rstrip", "single_word", "normalized", "special"}) {
    json += ",\"" + name + "\":" + (flags.find(name) != std::string::npos ? "true" : "false");
  }
  return json + "}";
}

// The pieces of `text`; text that is no added token shows as one "?" for each stretch.
Pieces found(const std::string& tokens, std::string_view text, const std::string& normalizer = "null") {
  TokenizerParts parts;
  parts.added_tokens = "[" + tokens + "]";
  parts.normalizer = normalizer;
  parts.model = R"({"type":"BPE","unk_token":"?","fuse_unk":true,"vocab":{"?":0},"merges":[]})";
  return pieces(*make_tokenizer(parts), text);
}

TEST(AddedTokens, TheLongestFromTheLeft) {
  const std::string tokens = added("<a>") + "," + added("<a><b>") + "," + added("<b><c>");
  EXPECT_EQ(found(tokens, "x<a><b><c>"), (Pieces{"?", "<a><b>", "?"}));
  EXPECT_EQ(found(tokens, "<a><a><b><c><"), (Pieces{"<a>", "<a><b>", "?"}));
  EXPECT_EQ(found(tokens, "<a"), Pieces{"?"});
}

TEST(AddedTokens, StripTakesWhiteSpace) {
  EXPECT_EQ(found(added("<l>", "lstrip"), "x \t\u3000<l> y"), (Pieces{"?", "<l>", "?"}));
  EXPECT_EQ(found(added("<r>", "rstrip"), "<r> \n"), Pieces{"<r>"});
  EXPECT_EQ(found(added("<r>", "rstrip") + "," + added("<l>", "lstrip"), "<r>  <l>"), (Pieces{"<r>", "<l>"}));
}

// A token within the white space that another took is found all the same, and what follows it is encoded again.
TEST(AddedTokens, WhiteSpaceTakenTwice) {
  EXPECT_EQ(found(added("<r>", "rstrip") + "," + added("  "), "<r>   x"), (Pieces{"<r>", "  ", "?"}));
  EXPECT_EQ(found(added("<r>", "rstrip") + "," + added("\\n", "lstrip rstrip"), "<r>\n\nx"), (Pieces{"<r>", "?"}));
}

TEST(AddedTokens, SingleWord) {
  const std::string token = added("<w>", "single_word");
  EXPECT_EQ(found(token, "<w>"), Pieces{"<w>"});
  EXPECT_EQ(found(token, "- <w>,"), (Pieces{"?", "<w>", "?"}));
  EXPECT_EQ(found(token, "a<w>"), Pieces{"?"});
  EXPECT_EQ(found(token, "<w>_"), Pieces{"?"});
  EXPECT_EQ(found(token, "<w>\u0301"), Pieces{"?"});  // a combining mark is of a word
}

TEST(AddedTokens, NormalizedOnesAreSoughtInNormalizedText) {
  const std::string nfc = R"({"type":"NFC"})";
  EXPECT_EQ(found(added("re\\u0301s", "normalized"), "x r\u00e9s", nfc), (Pieces{"?", "r\u00e9s"}));
  EXPECT_EQ(found(added("re\\u0301s"), "x r\u00e9s", nfc), Pieces{"?"});
  EXPECT_EQ(found(added("re\\u0301s"), "x re\u0301s", nfc), (Pieces{"?", "re\u0301s"}));
  // Raw text first: the shorter token hides the longer one.
  EXPECT_EQ(found(added("<a>") + "," + added("<a><b>", "normalized"), "<a><b>", nfc), (Pieces{"<a>", "?"}));
}

TEST(AddedTokens, IdsFollowTheModel) {
  TokenizerParts parts;
  parts.added_tokens = "[" + added("<x>") + "," + added("b") + "," + added("<y>", "special") + "]";
  const auto tokenizer = make_tokenizer(parts);
  EXPECT_EQ(tokenizer->piece_to_id("<x>"), 7);  // the model's seven tokens come first
  EXPECT_EQ(tokenizer->piece_to_id("b"), 1);    // is one of them
  EXPECT_EQ(tokenizer->piece_to_id("<y>"), 8);
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_EQ(tokenizer->encode("ab<y>", false), (std::vector<int32_t>{0, 1, 8}));
  EXPECT_TRUE(tokenizer->is_special(8));
  EXPECT_FALSE(tokenizer->is_special(7));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{7, 8}, true), "<x>");
}

}  // namespace
}  // namespace unspool
