// The library itself, as ./dev brings it into .venv.
#include "grammar/xgrammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>

#include "grammar/grammar_compiler.h"
#include "grammar/grammar_errors.h"
#include "tokenizer/tokenizer.h"

namespace unspool {
namespace {

class Xgrammar : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = Tokenizer::load(std::string(UNSPOOL_TEST_DATA) + "/models/llama-gqa-tied/tokenizer.json");
    ASSERT_TRUE(loaded.ok());
    tokenizer = *loaded;
    const char* directory = std::getenv("UNSPOOL_XGRAMMAR");
    const auto found = find_xgrammar(directory == nullptr ? "" : directory);
    ASSERT_TRUE(found.ok()) << found.error().message;
    auto made = load_xgrammar(*found, {tokenizer, kVocab, kEos});
    ASSERT_TRUE(made.ok()) << made.error().message;
    backend = std::move(*made);
  }

  static constexpr int kVocab = 400;  // more than the tokenizer has
  static constexpr int32_t kEos = 2;

  std::vector<int32_t> allowed(GrammarMatcher& matcher) const {
    std::vector<uint32_t> mask((kVocab + 31) / 32);
    EXPECT_TRUE(matcher.fill_mask(mask));
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < kVocab; ++id) {
      if ((mask[id / 32] >> (id % 32) & 1U) != 0) ids.push_back(id);
    }
    return ids;
  }
  std::unique_ptr<GrammarMatcher> matcher(const GrammarSpec& spec) const {
    auto grammar = backend->compile(spec);
    EXPECT_TRUE(grammar.ok()) << grammar.error().message;
    auto made = (*grammar)->matcher(std::vector<int32_t>{kEos});
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }
  // Whether the whole text, told by tokens, is an output of the grammar.
  bool matches(const GrammarSpec& spec, const std::string& text) const {
    const auto m = matcher(spec);
    for (const int32_t id : tokenizer->encode(text, false)) {
      if (!m->accept(id)) return false;
    }
    return m->accept(kEos) && m->terminated();
  }
  std::string refusal(const GrammarSpec& spec) const {
    const auto compiled = backend->compile(spec);
    return compiled.ok() ? "" : compiled.error().message;
  }

  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<GrammarBackend> backend;
};

TEST_F(Xgrammar, EveryKindSaysWhatItMeans) {
  const GrammarSpec schema = {GrammarKind::kJsonSchema,
                              R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})"};
  EXPECT_TRUE(matches(schema, R"({"a": 12})"));
  EXPECT_TRUE(matches(schema, "{\"a\":\n12}"));
  EXPECT_FALSE(matches(schema, R"({"a": "b"})"));
  EXPECT_FALSE(matches(schema, R"({"a": 1, "b": 2})")) << "properties that a schema does not name";
  GrammarSpec compact = schema;
  compact.any_whitespace = false;
  EXPECT_TRUE(matches(compact, R"({"a":12})"));
  EXPECT_FALSE(matches(compact, R"({"a": 12})"));
  EXPECT_TRUE(matches({GrammarKind::kRegex, "[0-9]{3}"}, "123"));
  EXPECT_FALSE(matches({GrammarKind::kRegex, "[0-9]{3}"}, "12"));
  EXPECT_TRUE(matches({GrammarKind::kEbnf, R"(root ::= "x" root | "y")"}, "xxy"));
  EXPECT_TRUE(matches({GrammarKind::kLark, R"(start: "x" | /[0-9]+/)"}, "42"));
  const GrammarSpec tag = {
      GrammarKind::kStructuralTag,
      R"({"type":"structural_tag","format":{"type":"tag","begin":"<f>","content":{"type":"json_schema",
                              "json_schema":{"type":"boolean"}},"end":"</f>"}})"};
  EXPECT_TRUE(matches(tag, "<f>true</f>"));
  EXPECT_FALSE(matches(tag, "<f>1</f>"));
}

TEST_F(Xgrammar, OnlyWhatDecodesToTextIsText) {
  const auto m = matcher({GrammarKind::kRegex, "(.|\\n)*"});
  for (const int32_t id : allowed(*m)) {
    if (id == kEos) continue;
    EXPECT_LT(id, tokenizer->vocab_size());
    EXPECT_FALSE(tokenizer->is_special(id)) << id;
  }
  EXPECT_GT(allowed(*m).size(), 300u);
}

TEST_F(Xgrammar, StringsOfBoundedLengthHoldNoRawControlCharacters) {
  const auto m = matcher({GrammarKind::kJsonSchema, R"({"type":"string","minLength":2,"maxLength":5})"});
  ASSERT_TRUE(m->accept(tokenizer->piece_to_id("\"")));
  const auto ids = allowed(*m);
  EXPECT_GT(ids.size(), 200u);
  for (const int32_t id : ids) {
    for (const char c : tokenizer->id_to_bytes(id)) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << id;
  }
}

TEST_F(Xgrammar, HalvesOfSurrogatePairsAreNoCharacters) {
  const auto byte = [&](char wanted) {
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id)
      if (tokenizer->id_to_bytes(id) == std::string_view(&wanted, 1)) return id;
    return -1;
  };
  const GrammarSpec specs[] = {{GrammarKind::kJsonSchema, R"({"type":"string","minLength":2,"maxLength":5})"},
                               {GrammarKind::kRegex, "\"[^a]{3}"}};
  for (const GrammarSpec& spec : specs) {
    const auto m = matcher(spec);
    ASSERT_TRUE(m->accept(byte('"')));
    ASSERT_TRUE(m->accept(byte('\xed')));
    const auto ids = allowed(*m);
    EXPECT_GE(ids.size(), 32u);
    for (const int32_t id : ids) EXPECT_LT(static_cast<unsigned char>(tokenizer->id_to_bytes(id)[0]), 0xa0) << id;
    const auto other = matcher(spec);
    ASSERT_TRUE(other->accept(byte('"')));
    ASSERT_TRUE(other->accept(byte('\xed')));
    EXPECT_FALSE(other->accept(byte('\xa0')));
    ASSERT_TRUE(m->accept(byte('\x95')));
    ASSERT_TRUE(m->accept(byte('\xa0'))) << "U+D560, a syllable";
  }
}

TEST_F(Xgrammar, MasksAreExactlyTheTokensThatItTakes) {
  const GrammarSpec spec = {GrammarKind::kRegex, "(ab|the |[0-9]+x)+"};
  auto m = matcher(spec);
  std::vector<int32_t> said;
  for (int step = 0; step < 20; ++step) {
    const auto ids = allowed(*m);
    for (int32_t id = 0; id < kVocab; ++id) {
      auto other = matcher(spec);
      for (const int32_t before : said) ASSERT_TRUE(other->accept(before));
      EXPECT_EQ(other->accept(id), std::find(ids.begin(), ids.end(), id) != ids.end()) << "token " << id;
    }
    const int32_t next = ids[(step * 7) % ids.size()];
    if (next == kEos) break;
    ASSERT_TRUE(m->accept(next));
    said.push_back(next);
  }
}

TEST_F(Xgrammar, FaultsAreTheClientsInWordsWithoutSourceLines) {
  EXPECT_EQ(refusal({GrammarKind::kRegex, "["}),
            "Failed to transform regex into a grammar: Regex parsing error at position 2: Unclosed '['");
  EXPECT_EQ(refusal({GrammarKind::kJsonSchema, R"({"type":"nope"})"}), "Grammar error: Invalid type: nope");
  EXPECT_EQ(refusal({GrammarKind::kJsonSchema, R"({"$ref":"#"})"}),
            "Failed to transform json schema into a grammar: Circular $ref chain with no schema content: # -> #");
  EXPECT_EQ(refusal({GrammarKind::kEbnf, "root ::= foo"}),
            "Invalid grammar specification: EBNF parser error at line 1, column 10: Rule \"foo\" is not defined");
  EXPECT_NE(refusal({GrammarKind::kLark, "start \"a\""}), "");
  EXPECT_NE(refusal({GrammarKind::kStructuralTag, R"({"type":"structural_tag","format":{"type":"zzz"}})"}), "");
  EXPECT_NE(refusal({GrammarKind::kRegex, std::string(100000, '(')}), "");
}

// On the stack that threads usually have, the first ends the process.
TEST_F(Xgrammar, GoesAsDeepAsATextCanSay) {
  const std::string open(250000, '(');
  const std::string close(250000, ')');
  GrammarCompiler compiler(std::move(backend), {.limit_s = 60});
  std::vector<std::future<void>> ends;
  for (const GrammarSpec& spec : {
           GrammarSpec{GrammarKind::kJsonSchema, R"({"type":"string","pattern":")" + open + "a" + close + R"("})"},
           GrammarSpec{GrammarKind::kRegex, open + "a" + close},
       }) {
    auto end = std::make_shared<std::promise<void>>();
    ends.push_back(end->get_future());
    compiler.compile(spec, [end](const auto&) { end->set_value(); });
  }
  for (auto& end : ends) ASSERT_EQ(end.wait_for(std::chrono::minutes(5)), std::future_status::ready);
  EXPECT_EQ(compiler.stats().num_left_behind, 0);
}

TEST(XgrammarIsMissing, AndTheErrorNamesPackagesAndVersions) {
  const auto found = find_xgrammar("/nowhere");
  ASSERT_FALSE(found.ok());
  for (const char* word : {"xgrammar==0.2.9", "apache-tvm-ffi==0.1.15", "/nowhere"}) {
    EXPECT_NE(found.error().message.find(word), std::string::npos) << word;
  }
}

TEST(GrammarErrors, ATagIsBlamedOnItsField) {
  StructuredOutputs asked;
  asked.grammar.kind = GrammarKind::kStructuralTag;
  asked.field = "response_format";
  const Error blamed = blame_field(asked, invalid_argument("anything"));
  EXPECT_EQ(blamed.message, "Invalid response_format structural_tag specification. (parameter=response_format)");
  EXPECT_EQ(blamed.param, "response_format");
  asked.field.clear();
  EXPECT_EQ(blame_field(asked, invalid_argument("anything")).message, "anything");
}

}  // namespace
}  // namespace unspool
