#include "models/generation_config.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace unspool {
namespace {

Result<GenerationConfig> parse(const std::string& text) {
  const auto document = JsonDocument::parse(text);
  EXPECT_TRUE(document.ok()) << text;
  return parse_generation_config(document->root(), 151936);
}

TEST(GenerationConfigTest, Qwen25Instruct) {
  const auto config = parse(R"({"bos_token_id": 151643, "pad_token_id": 151643, "do_sample": true,
    "eos_token_id": [151645, 151643], "repetition_penalty": 1.1, "temperature": 0.7, "top_p": 0.8, "top_k": 20,
    "transformers_version": "4.37.0"})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->eos_token_ids, (std::vector<int64_t>{151645, 151643}));
  EXPECT_EQ(config->bos_token_id, 151643);
  EXPECT_EQ(config->pad_token_id, 151643);
  EXPECT_EQ(config->temperature, 0.7);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_EQ(config->top_p, 0.8);
  EXPECT_EQ(config->repetition_penalty, 1.1);
  EXPECT_EQ(config->min_p, std::nullopt);
  EXPECT_EQ(config->max_new_tokens, std::nullopt);
}

TEST(GenerationConfigTest, EveryField) {
  const auto config = parse(R"({"eos_token_id": 2, "min_p": 0.05, "presence_penalty": -0.5, "frequency_penalty": 1,
    "max_new_tokens": 256, "top_k": 0, "temperature": null})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->eos_token_ids, (std::vector<int64_t>{2}));
  EXPECT_EQ(config->min_p, 0.05);
  EXPECT_EQ(config->presence_penalty, -0.5);
  EXPECT_EQ(config->frequency_penalty, 1.0);
  EXPECT_EQ(config->max_new_tokens, 256);
  EXPECT_EQ(config->top_k, 0);
  EXPECT_EQ(config->temperature, std::nullopt);
}

TEST(GenerationConfigTest, RefusesMalformedFields) {
  for (const char* text :
       {"[]", R"({"temperature": -1})", R"({"temperature": "hot"})", R"({"top_k": 1.5})", R"({"top_k": -2})",
        R"({"top_p": 0})", R"({"top_p": 1.1})", R"({"min_p": 2})", R"({"repetition_penalty": 0})",
        R"({"presence_penalty": 3})", R"({"frequency_penalty": true})", R"({"max_new_tokens": 0})",
        R"({"eos_token_id": "x"})", R"({"eos_token_id": [1, null]})", R"({"bos_token_id": {}})"}) {
    const auto config = parse(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_EQ(config.error().message.find("generation_config.json: "), 0u) << config.error().message;
  }
}

TEST(GenerationConfigTest, AnAbsentFileIsEmpty) {
  const auto config = load_generation_config(std::filesystem::temp_directory_path().string() + "/no-such-model", 10);
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config->eos_token_ids.empty());
}

}  // namespace
}  // namespace unspool
