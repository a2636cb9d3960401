#include <algorithm>
#include <thread>

#include "fixture.h"

namespace unspool {
namespace {

using Ids = std::vector<int32_t>;

TEST(Bpe, MergesByRankFromTheLeft) {
  const auto tokenizer = make_tokenizer({});
  EXPECT_EQ(tokenizer->encode("abc", false), Ids{4});
  EXPECT_EQ(tokenizer->encode("ababcab", false), (Ids{3, 4, 3}));
  EXPECT_EQ(tokenizer->encode("bc", false), (Ids{1, 2}));  // in the vocabulary, but no merge leads there
  EXPECT_EQ(tokenizer->encode("", false), Ids{});
}

TEST(Bpe, LowerRankWinsOverLeftmost) {
  TokenizerParts parts;
  parts.model = R"({"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4},"merges":[["b","c"],["a","b"]]})";
  EXPECT_EQ(make_tokenizer(parts)->encode("abc", false), (Ids{0, 4}));
}

TEST(Bpe, IgnoreMergesTakesWholePieces) {
  TokenizerParts parts;
  parts.model = R"({"type":"BPE","ignore_merges":true,"vocab":{"b":1,"c":2,"bc":6,"bcb":7},"merges":[["b","c"]]})";
  EXPECT_EQ(make_tokenizer(parts)->encode("bcb", false), Ids{7});
  EXPECT_EQ(make_tokenizer(parts)->encode("bcbc", false), (Ids{6, 6}));
}

TEST(Bpe, UnknownCharacters) {
  TokenizerParts parts;
  const auto model = [](const char* fuse) {
    return R"({"type":"BPE","unk_token":"?","fuse_unk":)" + std::string(fuse) +
           R"(,"vocab":{"?":0,"a":1,"b":2},"merges":[]})";
  };
  EXPECT_EQ(make_tokenizer({})->encode("axyb", false), (Ids{3}));  // without an unknown token they vanish
  parts.model = model("false");
  EXPECT_EQ(make_tokenizer(parts)->encode("x\u65e5ayb", false), (Ids{0, 0, 1, 0, 2}));
  parts.model = model("true");
  EXPECT_EQ(make_tokenizer(parts)->encode("x\u65e5ayb", false), (Ids{0, 1, 0, 2}));
}

TEST(Bpe, ByteFallback) {
  TokenizerParts parts;
  const auto model = [](const char* more) {
    return R"({"type":"BPE","byte_fallback":true,"vocab":{"a":1,"<0xC3>":2,"<0xA9>":3,"<0x0A>":4,"?":0,"a<0x0A>":5},)"
           R"("merges":[["a","<0x0A>"]])" +
           std::string(more) + "}";
  };
  parts.model = model("");
  EXPECT_EQ(make_tokenizer(parts)->encode("\u00e9b", false), (Ids{2, 3}));  // b has no byte token and vanishes
  EXPECT_EQ(make_tokenizer(parts)->encode("\u00e8", false), Ids{});         // nor has one of its bytes
  EXPECT_EQ(make_tokenizer(parts)->encode("a\n", false), Ids{5});           // byte tokens merge
  // As in PyPI's `tokenizers`: an unknown token waits for a known character, and byte tokens go before it.
  parts.model = model(R"(,"unk_token":"?","fuse_unk":true)");
  EXPECT_EQ(make_tokenizer(parts)->encode("xy\u00e9za", false), (Ids{2, 3, 0, 1}));
  parts.model = model(R"(,"unk_token":"?","fuse_unk":false)");
  EXPECT_EQ(make_tokenizer(parts)->encode("xy\u00e9za", false), (Ids{0, 2, 3, 0, 0, 1}));
}

// One piece of a megabyte. A merge loop that rescans the piece would take hours here, so ending is the assertion.
TEST(Bpe, MergesAMegabyteWithoutABreak) {
  TokenizerParts parts;
  std::string vocab = R"({"a":0,"b":1)";
  std::string merges = R"(["a","b"])";
  std::string piece = "ab";
  vocab += R"(,"ab":2)";
  for (int id = 3; piece.size() < 64; ++id, piece += piece) {
    vocab += ",\"" + piece + piece + "\":" + std::to_string(id);
    merges += ",[\"" + piece + "\",\"" + piece + "\"]";
  }
  parts.model = R"({"type":"BPE","vocab":)" + vocab + R"(},"merges":[)" + merges + "]}";
  const auto tokenizer = make_tokenizer(parts);
  std::string text;
  while (text.size() < (1 << 20)) text += "ab";
  const Ids ids = tokenizer->encode(text, false);
  EXPECT_EQ(ids, Ids((1 << 20) / 64, 7));
  EXPECT_EQ(tokenizer->encode(std::string(1 << 20, 'b'), false), Ids(1 << 20, 1));
}

TEST(Bpe, RefusesWhatItCannotDo) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"WordPiece","vocab":{}})", "WordPiece"},
      {R"({"type":"WordLevel","vocab":{}})", "WordLevel"},
      {R"({"type":"BPE","byte_fallback":1,"vocab":{},"merges":[]})", "byte_fallback"},
      {R"({"type":"BPE","end_of_word_suffix":"</w>","vocab":{},"merges":[]})", "end_of_word_suffix"},
      {R"({"type":"BPE","dropout":0.1,"vocab":{},"merges":[]})", "dropout"},
      {R"({"type":"BPE","continuing_subword_prefix":"##","vocab":{},"merges":[]})", "continuing_subword_prefix"},
      {R"({"type":"BPE","vocab":{"a":0},"merges":["a b"]})", "token b is not in the vocabulary"},
      {R"({"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]})", "token ab is not in the vocabulary"},
      {R"({"type":"BPE","vocab":{"a":0},"merges":["a b c"]})", "merges"},
      {R"({"type":"BPE","vocab":{"a":0},"merges":[["a"]]})", "merges"},
      {R"({"type":"BPE","vocab":{"a":-1},"merges":[]})", "-1"},
      {R"({"type":"BPE","vocab":{"a":2000000000},"merges":[]})", "2000000000"},
      {R"({"type":"BPE","vocab":[],"merges":[]})", "vocab"},
      {"null", "model"},
  };
  for (const auto& [model, expected] : cases) {
    TokenizerParts parts;
    parts.model = model;
    EXPECT_NE(load_error(parts).find(expected), std::string::npos) << model << ": " << load_error(parts);
  }
}

TEST(Bpe, ThreadsShareATokenizer) {
  TokenizerParts parts;
  parts.model = byte_model();
  parts.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  const auto tokenizer = make_tokenizer(parts);
  const std::string text = "Some words, 123 numbers \u65e5\u672c and   spaces.";
  const Ids expected = tokenizer->encode(text, true);
  std::vector<int> equal(4, 1);
  std::vector<std::thread> threads;
  for (int& same : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) same &= tokenizer->encode(text, true) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(std::all_of(equal.begin(), equal.end(), [](int same) { return same == 1; }));
}

}  // namespace
}  // namespace unspool
