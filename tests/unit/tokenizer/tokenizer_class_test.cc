#include "tokenizer/tokenizer_class.h"

#include "base/file.h"
#include "fixture.h"

namespace unspool {
namespace {

// What transformers' AutoTokenizer gave (tools/make_tokenizers.py records it).
TEST(TokenizerClass, TokenizesAsTransformers) {
  const std::string directory = UNSPOOL_TEST_DATA "/tokenizers/";
  const auto golden = read_file(directory + "classes.json");
  ASSERT_TRUE(golden.ok());
  const auto document = JsonDocument::parse(*golden);
  ASSERT_TRUE(document.ok());
  const std::vector<JsonValue> texts = document->root()["texts"].elements();
  EXPECT_GT(document->root()["cases"].size(), 20u);
  for (const JsonValue& element : document->root()["cases"].elements()) {
    const JsonValue config = element["tokenizer_config"];
    const std::string family(*element["family"].as_string());
    const auto text = read_file(directory + family + "/tokenizer.json");
    ASSERT_TRUE(text.ok());
    const std::string name =
        tokenizer_class(config["tokenizer_class"].as_string().value_or(""), *element["model_type"].as_string(), *text);
    const auto tokenizer = tokenizer_from_json(*text, parts_of_class(name, config));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    const std::string what = family + " as " + name + " for " + config.dump();
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<int32_t> ids = ids_of(element["ids"].elements()[i]);
      EXPECT_EQ((*tokenizer)->encode(*texts[i].as_string(), true), ids) << what << ": " << texts[i].dump();
      EXPECT_EQ((*tokenizer)->decode(ids, false), *element["decoded"].elements()[i].as_string()) << what;
    }
  }
}

TEST(TokenizerClass, LlamaOfBytesIsTheFileItself) {
  EXPECT_EQ(tokenizer_class("LlamaTokenizerFast", "llama", "{}"), "LlamaTokenizer");
  EXPECT_EQ(tokenizer_class("LlamaTokenizerFast", "llama", R"({"decoder":{"type":"ByteLevel"}})"), "");
  EXPECT_EQ(tokenizer_class("LlamaTokenizer", "mistral", "{}"), "");
  EXPECT_EQ(tokenizer_class("NeverHeardOfTokenizer", "llama", "{}"), "");
  EXPECT_EQ(tokenizer_class("", "", "{}"), "");
}

}  // namespace
}  // namespace unspool
