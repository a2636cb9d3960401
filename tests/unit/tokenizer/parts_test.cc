// Every normalizer, pre-tokenizer and decoder by itself, as tools/make_tokenizers.py recorded it from PyPI's
// `tokenizers`.
#include "base/file.h"
#include "fixture.h"
#include "json/json.h"

namespace unspool {
namespace {

TEST(Parts, EncodeAndDecodeAsRecorded) {
  const auto text = read_file(UNSPOOL_TEST_DATA "/tokenizers/parts.json");
  ASSERT_TRUE(text.ok());
  const auto document = JsonDocument::parse(*text);
  ASSERT_TRUE(document.ok());
  const JsonValue root = document->root();
  EXPECT_GT(root["parts"].size(), 100u);
  for (const auto& [name, golden] : root["parts"].members()) {
    TokenizerParts parts;
    parts.added_tokens = root["added_tokens"].dump();
    parts.normalizer = golden["normalizer"].dump();
    parts.pre_tokenizer = golden["pre_tokenizer"].dump();
    parts.decoder = golden["decoder"].dump();
    parts.model = root["models"][*golden["model"].as_string()].dump();
    const auto tokenizer = make_tokenizer(parts);
    EXPECT_GT(golden["cases"].size(), 8u);
    for (const JsonValue& element : golden["cases"].elements()) {
      const std::vector<JsonValue> fields = element.elements();
      const std::vector<int32_t> ids = ids_of(fields[1]);
      EXPECT_EQ(tokenizer->encode(*fields[0].as_string(), true), ids) << name << ": " << fields[0].dump();
      EXPECT_EQ(tokenizer->decode(ids, false), *fields[2].as_string()) << name << ": " << fields[0].dump();
    }
  }
}

}  // namespace
}  // namespace unspool
