// What sets tokenizers that come from sentencepiece apart: spaces that are written, and the one in front of a text.
#include "fixture.h"
#include "tokenizer/byte_fallback.h"

namespace unspool {
namespace {

using Ids = std::vector<int32_t>;
using Pieces = std::vector<std::string>;

constexpr const char* kDecoder =
    R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},)"
    R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
constexpr const char* kMetaspaceDecoder = R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always"})";
constexpr const char* kModel =
    R"({"type":"BPE","byte_fallback":true,"vocab":{"\u2581":0,"a":1,"\u2581a":2,"\u2581\u2581":3,"<0xE6>":4,"<0x97>":5,)"
    R"("<0xA5>":6,"<0x41>":7,"b":8,"<0xFF>":9},"merges":[["\u2581","a"]]})";
constexpr const char* kAdded =
    R"([{"id":10,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}])";

TokenizerParts parts_with(const std::string& decoder) {
  TokenizerParts parts;
  parts.model = kModel;
  parts.added_tokens = kAdded;
  parts.decoder = decoder;
  return parts;
}

std::string metaspace(const std::string& more) {
  return R"({"type":"Metaspace","replacement":"\u2581")" + more + "}";
}

Pieces pieces_of(const std::string& pre_tokenizer, std::string_view text) {
  TokenizerParts parts = parts_with(kDecoder);
  parts.pre_tokenizer = pre_tokenizer;
  return pieces(*make_tokenizer(parts), text);
}

TEST(Metaspace, PutsASpaceInFront) {
  EXPECT_EQ(pieces_of(metaspace(R"(,"prepend_scheme":"always")"), "a<s>a"), (Pieces{"▁a", "<s>", "▁a"}));
  EXPECT_EQ(pieces_of(metaspace(R"(,"prepend_scheme":"first")"), "a<s>a"), (Pieces{"▁a", "<s>", "a"}));
  EXPECT_EQ(pieces_of(metaspace(R"(,"prepend_scheme":"first")"), "<s>a"), (Pieces{"<s>", "a"}));
  EXPECT_EQ(pieces_of(metaspace(R"(,"prepend_scheme":"never")"), "a a"), (Pieces{"a", "▁a"}));
  EXPECT_EQ(pieces_of(metaspace(""), " a"), Pieces{"▁a"});  // it has one
  EXPECT_EQ(pieces_of(metaspace(""), "▁a"), Pieces{"▁a"});
}

TEST(Metaspace, OldSpelling) {
  EXPECT_EQ(pieces_of(metaspace(R"(,"add_prefix_space":true)"), "a"), Pieces{"▁a"});
  EXPECT_EQ(pieces_of(metaspace(R"(,"add_prefix_space":false)"), "a"), Pieces{"a"});
  EXPECT_EQ(pieces_of(metaspace(R"(,"add_prefix_space":false,"prepend_scheme":"never")"), "a"), Pieces{"a"});
}

TEST(SentencePieceDecoder, TakesTheSpaceOffTheFirstWordAlone) {
  for (const char* decoder : {kDecoder, kMetaspaceDecoder}) {
    const auto tokenizer = make_tokenizer(parts_with(decoder));
    EXPECT_EQ(tokenizer->decode(Ids{2, 2}, false), "a a") << decoder;
    EXPECT_EQ(tokenizer->decode(Ids{0, 2}, false), " a") << decoder;
    EXPECT_EQ(tokenizer->decode(Ids{10, 2}, false), "<s> a");
    EXPECT_EQ(tokenizer->decode(Ids{10, 2}, true), "a");
    EXPECT_FALSE(tokenizer->joins_bytes());
  }
  EXPECT_EQ(make_tokenizer(parts_with(kDecoder))->decode(Ids{3, 1}, false), " a");
  EXPECT_EQ(make_tokenizer(parts_with(kMetaspaceDecoder))->decode(Ids{3, 1}, false), "a");
}

TEST(SentencePieceDecoder, Bytes) {
  const auto tokenizer = make_tokenizer(parts_with(kDecoder));
  EXPECT_EQ(tokenizer->decode(Ids{2, 4, 5, 6, 1}, false), "a\u65e5a");
  EXPECT_EQ(tokenizer->decode(Ids{4, 5, 1}, false), "\ufffd\ufffda");
  EXPECT_EQ(tokenizer->decode(Ids{7, 9}, false), "\ufffd\ufffd");  // the whole run, its letter too
  EXPECT_EQ(tokenizer->id_to_bytes(2), " a");
  EXPECT_EQ(tokenizer->id_to_bytes(3), "  ");
  EXPECT_EQ(tokenizer->id_to_bytes(4), "\xE6");
  EXPECT_EQ(tokenizer->id_to_bytes(10), "<s>");
  EXPECT_EQ(make_tokenizer(parts_with(kMetaspaceDecoder))->id_to_bytes(2), " a");
}

// The steps after it find bytes where they look for characters.
TEST(SentencePieceDecoder, BytesBeforeOtherSteps) {
  const std::string byte = R"({"type":"ByteFallback"})";
  for (const std::string after :
       {R"({"type":"ByteLevel"})", R"({"type":"Replace","pattern":{"Regex":"x"},"content":""})",
        R"({"type":"Strip","content":" ","start":1,"stop":1})", R"({"type":"Metaspace","replacement":"\u2581"})"}) {
    const auto tokenizer = make_tokenizer(parts_with(R"({"type":"Sequence","decoders":[)" + byte + "," + after + "]}"));
    EXPECT_EQ(tokenizer->id_to_bytes(4), "\xE6") << after;
    EXPECT_EQ(tokenizer->decode(Ids{4}, false), "\ufffd") << after;
  }
}

// Beside a log-prob a token has its own space, where the reference knows of one: by a Metaspace pre-tokenizer.
TEST(SentencePieceDecoder, TextOfATokenAlone) {
  TokenizerParts parts = parts_with(kDecoder);
  EXPECT_EQ(make_tokenizer(parts)->token_text(2), "a");
  EXPECT_EQ(make_tokenizer(parts)->token_text(3), " ");
  parts.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[)" + metaspace("") + "]}";
  EXPECT_EQ(make_tokenizer(parts)->token_text(2), " a");
  EXPECT_EQ(make_tokenizer(parts)->token_text(3), "  ");
  EXPECT_EQ(make_tokenizer(parts)->token_text(1), "a");
  EXPECT_EQ(make_tokenizer(parts)->token_text(4), "\ufffd");
  EXPECT_EQ(make_tokenizer(parts)->token_text(99), "");
}

TEST(FallbackByte, IsOfItsFormAlone) {
  EXPECT_EQ(fallback_byte("<0x0A>"), 0x0A);
  EXPECT_EQ(fallback_byte("<0xff>"), 0xFF);
  EXPECT_EQ(fallback_byte("<0x+F>"), 0x0F);  // so says Rust
  for (const char* piece : {"<0x0G>", "<0x0A", "<0x00A>", "0x0A>>", "<0x \xC3\xA9>", ""}) {
    EXPECT_EQ(fallback_byte(piece), std::nullopt) << piece;
  }
}

// Llama 2 and Gemma hand the model the whole text as one piece. A merge loop that rescans it would take hours here.
TEST(SentencePieceBpe, ALongTextWithoutSplits) {
  TokenizerParts parts = parts_with(kDecoder);
  parts.normalizer = R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})";
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += " a";
  EXPECT_EQ(make_tokenizer(parts)->encode(text, false), Ids(300'000, 2));
}

}  // namespace
}  // namespace unspool
