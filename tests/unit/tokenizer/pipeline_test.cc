// Normalizers, pre-tokenizers, post-processors and decoders, through whole tokenizers.
#include <filesystem>
#include <fstream>

#include "fixture.h"

namespace unspool {
namespace {

using Ids = std::vector<int32_t>;
using Pieces = std::vector<std::string>;

// Pieces that a pre-tokenizer makes of `text`: the model holds every one that the cases below can give.
Pieces split(const std::string& pre_tokenizer, std::string_view text) {
  TokenizerParts parts;
  parts.pre_tokenizer = pre_tokenizer;
  parts.model = R"({"type":"BPE","ignore_merges":true,"unk_token":"?","fuse_unk":true,"merges":[],"vocab":{"?":0,)"
                R"("the":1,"-":2,"final":3,"--":4,"countdown":5,"the-":6,"final-":7,"-final":8,"-countdown":9,)"
                R"("a":10,"12":11,"1":12,"2":13,"b":14,"\u0120a":15,"\u0120the":16,"\u0120\u0120":17}})";
  return pieces(*make_tokenizer(parts), text);
}

std::string split_at_dash(const std::string& behavior, const std::string& invert = "false") {
  return R"({"type":"Split","pattern":{"String":"-"},"behavior":")" + behavior + R"(","invert":)" + invert + "}";
}

TEST(PreTokenizer, SplitBehaviors) {
  constexpr std::string_view kText = "the-final--countdown";
  EXPECT_EQ(split(split_at_dash("Removed"), kText), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(split(split_at_dash("Isolated"), kText), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split(split_at_dash("MergedWithPrevious"), kText), (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split(split_at_dash("MergedWithNext"), kText), (Pieces{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split(split_at_dash("Contiguous"), kText), (Pieces{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split(split_at_dash("Removed", "true"), kText), (Pieces{"-", "-", "-"}));
}

TEST(PreTokenizer, SplitByRegexInASequence) {
  const std::string regex =
      R"({"type":"Split","pattern":{"Regex":"\\p{N}+|\\p{L}"},"behavior":"Isolated","invert":false})";
  EXPECT_EQ(split(regex, "a12b"), (Pieces{"a", "12", "b"}));
  EXPECT_EQ(
      split(R"({"type":"Sequence","pretokenizers":[)" + regex + R"(,{"type":"Digits","individual_digits":true}]})",
            "a12b"),
      (Pieces{"a", "1", "2", "b"}));
}

TEST(PreTokenizer, Digits) {
  EXPECT_EQ(split(R"({"type":"Digits","individual_digits":true})", "12a1"), (Pieces{"1", "2", "a", "1"}));
  EXPECT_EQ(split(R"({"type":"Digits","individual_digits":false})", "12a1"), (Pieces{"12", "a", "1"}));
}

TEST(PreTokenizer, ByteLevelPrefixSpaceGoesBeforeEveryPiece) {
  const std::string byte_level =
      R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":false})";
  EXPECT_EQ(split(byte_level, "a"), Pieces{"\u0120a"});
  EXPECT_EQ(split(byte_level, " a"), Pieces{"\u0120a"});
  EXPECT_EQ(
      split(R"({"type":"Sequence","pretokenizers":[)" + split_at_dash("Removed") + "," + byte_level + "]}", "the-a"),
      (Pieces{"\u0120the", "\u0120a"}));
}

TEST(Normalizer, FormsAndSequences) {
  TokenizerParts parts;
  parts.model = R"({"type":"BPE","vocab":{"\u00e9":0,"e":1,"\u0301":2,"f":3,"i":4,"\ufb01":5},"merges":[]})";
  const auto encode = [&](const char* normalizer) {
    parts.normalizer = normalizer;
    return make_tokenizer(parts)->encode("e\u0301\ufb01", false);
  };
  EXPECT_EQ(encode("null"), (Ids{1, 2, 5}));
  EXPECT_EQ(encode(R"({"type":"NFC"})"), (Ids{0, 5}));
  EXPECT_EQ(encode(R"({"type":"NFKC"})"), (Ids{0, 3, 4}));
  EXPECT_EQ(encode(R"({"type":"NFKD"})"), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(encode(R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"NFD"}]})"), (Ids{1, 2, 5}));
}

TEST(PostProcessor, Templates) {
  TokenizerParts parts;
  parts.post_processor =
      R"({"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing","single":[)"
      R"({"SpecialToken":{"id":"x","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"y"}}],)"
      R"("pair":[],"special_tokens":{"x":{"id":"x","ids":[5,6],"tokens":[]},"y":{"id":"y","ids":[2],"tokens":[]}}}]})";
  EXPECT_EQ(make_tokenizer(parts)->encode("ab", true), (Ids{5, 6, 3, 2}));
  EXPECT_EQ(make_tokenizer(parts)->encode("ab", false), Ids{3});
  EXPECT_EQ(make_tokenizer(parts)->encode("", true), (Ids{5, 6, 2}));
  parts.post_processor = R"({"type":"RobertaProcessing","cls":["a",0],"sep":["b",1],"trim_offsets":true})";
  EXPECT_EQ(make_tokenizer(parts)->encode("ab", true), (Ids{0, 3, 1}));
}

TEST(Decoder, ByteLevelAndNone) {
  TokenizerParts parts;
  parts.model = byte_model(R"(,"\u65e5x":256)");
  const Ids ids = {'h', 0xC3, 0xA9, 256, 0xE6, 999, 0x97, 0xA5, 0xFF};
  parts.decoder = R"({"type":"ByteLevel"})";
  EXPECT_EQ(make_tokenizer(parts)->decode(ids, false), "h\u00e9\u65e5x\u65e5\ufffd");
  parts.decoder = R"({"type":"Sequence","decoders":[{"type":"ByteLevel"}]})";
  EXPECT_EQ(make_tokenizer(parts)->decode(ids, false), "h\u00e9\u65e5x\u65e5\ufffd");
  parts.decoder = "null";
  EXPECT_EQ(make_tokenizer(parts)->decode(Ids{'h', 'i', 256}, false), "h i \u65e5x");
}

TEST(Tokenizer, ReplacesInvalidUtf8First) {
  TokenizerParts parts;
  parts.model = byte_model();
  parts.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
  EXPECT_EQ(make_tokenizer(parts)->encode("a\xff\xe6\x97", false), (Ids{'a', 0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD}));
}

TEST(Tokenizer, AnswersAboutItsVocabulary) {
  TokenizerParts parts;
  parts.model = byte_model(R"(,"\u0120world":256)");
  parts.decoder = R"({"type":"ByteLevel"})";
  parts.added_tokens = R"([{"id":257,"content":"<|end|>","single_word":false,"lstrip":false,"rstrip":false,)"
                       R"("normalized":false,"special":true}])";
  const auto tokenizer = make_tokenizer(parts);
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_EQ(tokenizer->id_to_piece(256), "\u0120world");
  EXPECT_EQ(tokenizer->id_to_bytes(256), " world");
  EXPECT_EQ(tokenizer->id_to_bytes(257), "<|end|>");
  EXPECT_EQ(tokenizer->id_to_bytes(0xE6), "\xE6");
  EXPECT_EQ(tokenizer->piece_to_id("\u0120world"), 256);
  EXPECT_EQ(tokenizer->piece_to_id("<|end|>"), 257);
  EXPECT_EQ(tokenizer->piece_to_id("absent"), -1);
  EXPECT_TRUE(tokenizer->is_special(257));
  EXPECT_EQ(tokenizer->max_piece_chars(), 7);
  for (const int32_t id : {-1, 258, 2147483647, -2147483647 - 1}) {
    EXPECT_EQ(tokenizer->id_to_piece(id), "");
    EXPECT_EQ(tokenizer->id_to_bytes(id), "");
    EXPECT_FALSE(tokenizer->is_special(id));
  }
}

// A file that was made to take all memory: each step would make the text a thousand times as long.
TEST(Tokenizer, TextsDoNotGrowWithoutEnd) {
  const std::string replace =
      R"({"type":"Replace","pattern":{"String":"a"},"content":")" + std::string(1000, 'a') + "\"}";
  std::string all = replace;
  for (int i = 0; i < 20; ++i) all += "," + replace;
  TokenizerParts parts;
  parts.model = R"({"type":"BPE","vocab":{"a":0},"merges":[]})";
  parts.normalizer = R"({"type":"Sequence","normalizers":[)" + all + "]}";
  parts.decoder = R"({"type":"Sequence","decoders":[)" + all + "]}";
  const auto tokenizer = make_tokenizer(parts);
  EXPECT_EQ(tokenizer->encode("a", false), Ids(1'000'000, 0));  // two steps, then it is too long
  EXPECT_EQ(tokenizer->decode(Ids{0}, false).size(), 1'000'000u);
  parts.normalizer = R"({"type":"Prepend","prepend":")" + std::string(1025, 'a') + "\"}";
  EXPECT_NE(load_error(parts).find("at most 1024 bytes"), std::string::npos) << load_error(parts);
}

TEST(Tokenizer, RefusesUnknownPartsByName) {
  TokenizerParts parts;
  const auto refuses = [&](std::string& part, const char* json, const char* expected) {
    const std::string before = part;
    part = json;
    EXPECT_NE(load_error(parts).find(expected), std::string::npos) << json << ": " << load_error(parts);
    part = before;
  };
  refuses(parts.normalizer, R"({"type":"Uppercase"})", "Uppercase");
  refuses(parts.normalizer, R"({"type":"Sequence","normalizers":[{"type":"Strip"}]})", "strip_left");
  refuses(parts.normalizer, R"({"type":"Replace","pattern":{"Regex":"("},"content":""})", "(");
  refuses(parts.normalizer, R"({"type":"Prepend"})", "prepend");
  refuses(parts.normalizer, R"({"type":"Precompiled","precompiled_charsmap":"AAA!"})", "base64");
  refuses(parts.normalizer, R"({"type":"Precompiled","precompiled_charsmap":"////fw=="})", "cut off");
  refuses(parts.normalizer, R"("NFC")", "NFC");
  refuses(parts.pre_tokenizer, R"({"type":"FixedLength","length":3})", "FixedLength");
  refuses(parts.pre_tokenizer, R"({"type":"Metaspace"})", "replacement");
  refuses(parts.pre_tokenizer, R"({"type":"Metaspace","replacement":"ab"})", "one character");
  refuses(parts.pre_tokenizer, R"({"type":"Metaspace","replacement":"_","prepend_scheme":"odd"})", "odd");
  refuses(parts.pre_tokenizer,
          R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first","add_prefix_space":false})",
          "does not match");
  refuses(parts.pre_tokenizer, R"({"type":"Digits"})", "individual_digits");
  refuses(parts.pre_tokenizer, R"({"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated","invert":false})", "(");
  refuses(parts.pre_tokenizer, R"({"type":"Split","pattern":{"String":"x"},"behavior":"Odd","invert":false})", "Odd");
  refuses(parts.post_processor, R"({"type":"Unheard"})", "Unheard");
  refuses(parts.post_processor, R"({"type":"BertProcessing","cls":["a",0],"sep":["z",99]})", "99");
  refuses(parts.decoder, R"({"type":"WordPiece","prefix":"##","cleanup":true})", "WordPiece");
  refuses(parts.decoder, R"({"type":"CTC"})", "CTC");
  refuses(parts.decoder, R"({"type":"Strip","content":" ","start":-1,"stop":0})", "Strip.start");
  refuses(parts.added_tokens, R"([{"id":9,"content":"x"}])", "single_word");
  refuses(parts.added_tokens, "{}", "added_tokens");
  EXPECT_FALSE(Tokenizer::from_json("[]").ok());
  EXPECT_FALSE(Tokenizer::from_json("{").ok());
  EXPECT_FALSE(Tokenizer::load("/nonexistent/tokenizer.json").ok());
}

TEST(TokenizerErrors, NameTheFileOnce) {
  TokenizerParts parts;
  parts.decoder = R"({"type":"CTC"})";
  const std::string path = testing::TempDir() + "named_once.json";
  std::ofstream(path) << parts.json();
  const auto loaded = Tokenizer::load(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(loaded.ok());
  EXPECT_TRUE(loaded.error().message.starts_with(path + ": decoder")) << loaded.error().message;
}

}  // namespace
}  // namespace unspool
