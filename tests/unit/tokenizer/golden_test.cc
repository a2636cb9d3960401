// Every family's tokenizer against what PyPI's `tokenizers` gave (tools/make_tokenizers.py records it).
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "fixture.h"
#include "json/json.h"
#include "tokenizer/incremental_detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace unspool {
namespace {

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, EncodesAndDecodesAsRecorded) {
  const std::string directory = std::string(UNSPOOL_TEST_DATA "/tokenizers/") + GetParam();
  const auto loaded = Tokenizer::load(directory + "/tokenizer.json");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const std::shared_ptr<const Tokenizer>& tokenizer = *loaded;
  const auto text = read_file(directory + "/golden.json");
  ASSERT_TRUE(text.ok());
  const auto document = JsonDocument::parse(*text);
  ASSERT_TRUE(document.ok());
  const std::vector<JsonValue> cases = document->root().elements();
  EXPECT_GT(cases.size(), 100u);
  for (const JsonValue& golden : cases) {
    const std::string_view input = *golden["text"].as_string();
    const std::vector<int32_t> ids = ids_of(golden["ids"]);
    EXPECT_EQ(tokenizer->encode(input, true), ids) << input;
    EXPECT_EQ(tokenizer->encode(input, false), ids_of(golden["ids_plain"])) << input;
    EXPECT_EQ(tokenizer->decode(ids, false), *golden["decoded"].as_string());
    EXPECT_EQ(tokenizer->decode(ids, true), *golden["decoded_plain"].as_string());
    IncrementalDetokenizer stream(tokenizer, {}, false, true);
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.push(id);
    // A stream keeps a character that is incomplete at its end to itself.
    const std::string_view decoded = *golden["decoded"].as_string();
    EXPECT_TRUE(streamed == decoded || streamed + "\ufffd" == decoded) << streamed;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         testing::Values("gpt2", "llama3", "qwen2", "smollm", "flags", "llama2", "llama2_flags",
                                         "mistral_v3", "gemma", "phi3", "t5", "xlmr", "unigram_bytes"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace unspool
