// Rotary parameters of config.json: both spellings, every type, and what is refused by name.
#include "models/rope_config.h"

#include <gtest/gtest.h>

#include <string>

namespace unspool {
namespace {

constexpr RopeFamily kLlama{.head_dim = 8, .max_position_embeddings = 2048};
constexpr RopeFamily kPhi3{.head_dim = 8,
                           .max_position_embeddings = 2048,
                           .follows_partial_factor = true,
                           .longrope_alone = true,
                           .default_original_max = 4096};
constexpr RopeFamily kGlobal{.head_dim = 8,
                             .max_position_embeddings = 2048,
                             .default_theta = 1e6,
                             .context_is_scaled = true,
                             .layer_type = "full_attention"};
constexpr RopeFamily kLocal{.head_dim = 8,
                            .max_position_embeddings = 2048,
                            .context_is_scaled = true,
                            .layer_type = "sliding_attention",
                            .theta_key = "rope_local_base_freq"};
constexpr const char* kFactors = R"("short_factor": [1, 2, 3, 4], "long_factor": [5, 6.5, 7, 8])";

Result<RopeConfig> read(const std::string& text, const RopeFamily& family = kLlama, const char* overrides = "{}") {
  const auto document = JsonDocument::parse(text), over = JsonDocument::parse(overrides);
  EXPECT_TRUE(document.ok() && over.ok()) << text;
  const JsonValue root = over->root();
  return read_rope_config(ConfigReader("config.json", document->root(), &root), family);
}

RopeConfig good(const std::string& text, const RopeFamily& family = kLlama, const char* overrides = "{}") {
  const auto rope = read(text, family, overrides);
  EXPECT_TRUE(rope.ok()) << text << ": " << rope.error().message;
  return rope.ok() ? *rope : RopeConfig();
}

void expect_refused(const std::string& text, const std::string& part, const RopeFamily& family = kLlama) {
  const auto rope = read(text, family);
  ASSERT_FALSE(rope.ok()) << text;
  EXPECT_NE(rope.error().message.find(part), std::string::npos) << rope.error().message;
}

std::string scaling(const std::string& fields) {
  return R"({"rope_scaling": {)" + fields + "}}";
}

TEST(RopeConfigTest, NothingIsTheDefault) {
  const RopeConfig rope = good("{}");
  EXPECT_EQ(rope.type, RopeType::kDefault);
  EXPECT_EQ(rope.theta, 10000.0);
  EXPECT_EQ(rope.rotary_dim, 8);
  EXPECT_EQ(rope.attention_factor, 1.0);
  EXPECT_EQ(good(R"({"rope_scaling": null, "rope_parameters": null})").type, RopeType::kDefault);
}

TEST(RopeConfigTest, ThetaInEitherPlace) {
  EXPECT_EQ(good(R"({"rope_theta": 7})").theta, 7.0);
  EXPECT_EQ(good(R"({"rope_parameters": {"rope_theta": 7}})").theta, 7.0);
  EXPECT_EQ(good(R"({"rope_theta": 7, "rope_parameters": {"rope_theta": 7}})").theta, 7.0);
  expect_refused(R"({"rope_theta": 7, "rope_parameters": {"rope_theta": 8}})", "rope_theta is 7 at the top level");
  EXPECT_EQ(good(R"({"rope_theta": 7, "rope_parameters": {"rope_theta": 8}})", kLlama, R"({"rope_theta": 9})").theta,
            9.0);
}

TEST(RopeConfigTest, EveryTypeUnderEitherKey) {
  const std::pair<std::string, RopeType> types[] = {
      {R"("linear", "factor": 2)", RopeType::kLinear},
      {R"("dynamic", "factor": 2)", RopeType::kDynamic},
      {R"("yarn", "factor": 2, "original_max_position_embeddings": 64)", RopeType::kYarn},
      {R"("longrope", )" + std::string(kFactors), RopeType::kLongRope},
      {R"("llama3", "factor": 2, "low_freq_factor": 1, "high_freq_factor": 4)", RopeType::kLlama3},
      {R"("default")", RopeType::kDefault}};
  for (const auto& [fields, type] : types)
    for (const std::string key : {R"("type": )", R"("rope_type": )"}) {
      EXPECT_EQ(good(scaling(key + fields)).type, type) << key << fields;
      EXPECT_EQ(good(R"({"rope_parameters": {)" + key + fields + "}}").type, type) << key << fields;
    }
  expect_refused(scaling(R"("type": "linear", "rope_type": "yarn", "factor": 2)"), "remove one of them");
  expect_refused(scaling(R"("factor": 2)"), "rope_scaling has no rope_type");
}

TEST(RopeConfigTest, UnknownTypesAreNamed) {
  for (const std::string type : {"mrope", "ntk", "proportional", "deepseek_yarn", "Yarn", ""}) {
    expect_refused(
        scaling(R"("rope_type": ")" + type + R"(", "factor": 2)"),
        "unsupported rope type \"" + type + "\"; supported: default, linear, dynamic, yarn, longrope, llama3");
  }
  expect_refused(scaling(R"("rope_type": 7)"), "rope_scaling.rope_type: expected a string, got 7");
  expect_refused(R"({"rope_scaling": "linear"})", "rope_scaling: expected an object");
  expect_refused(R"({"rope_parameters": [1]})", "rope_parameters: expected an object");
}

TEST(RopeConfigTest, WhatATypeNeedsIsNamed) {
  expect_refused(scaling(R"("rope_type": "linear")"), "rope_scaling.factor is missing");
  expect_refused(scaling(R"("rope_type": "linear", "factor": 0.5)"),
                 "rope_scaling.factor: expected a number of at least 1");
  expect_refused(scaling(R"("rope_type": "linear", "factor": "2")"), "rope_scaling.factor: expected a number");
  expect_refused(scaling(R"("rope_type": "dynamic")"), "rope_scaling.factor is missing");
  expect_refused(scaling(R"("rope_type": "dynamic", "factor": 2, "alpha": 1000)"), "rope_scaling.alpha");
  expect_refused(scaling(R"("rope_type": "dynamic", "factor": 2)"), "more than 2 features",
                 {.head_dim = 2, .max_position_embeddings = 64});
  expect_refused(scaling(R"("rope_type": "yarn")"), "rope_scaling.factor is missing");
  expect_refused(scaling(R"("rope_type": "yarn", "factor": 4, "truncate": 1)"), "rope_scaling.truncate: expected true");
  expect_refused(scaling(R"("rope_type": "yarn", "factor": 4, "beta_fast": "32")"), "rope_scaling.beta_fast");
  expect_refused(scaling(R"("rope_type": "yarn", "factor": 4, "attention_factor": -1)"),
                 "rope_scaling.attention_factor");
  expect_refused(R"({"rope_theta": 1, "rope_scaling": {"rope_type": "yarn", "factor": 4}})",
                 "above 1 for rope type yarn");
  expect_refused(scaling(R"("rope_type": "llama3", "factor": 2)"), "rope_scaling.low_freq_factor is missing");
  expect_refused(scaling(R"("rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4)"),
                 "expected high_freq_factor above low_freq_factor, got 4 and 4");
  expect_refused(scaling(R"("rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64.5)"),
                 "rope_scaling.original_max_position_embeddings: expected an integer, got 64.5");
  expect_refused(R"({"original_max_position_embeddings": 32, "rope_scaling": {"rope_type": "yarn", "factor": 4,
                     "original_max_position_embeddings": 64}})",
                 "original_max_position_embeddings is 32 at the top level");
}

TEST(RopeConfigTest, LongRopeLists) {
  const RopeConfig rope = good(scaling(R"("rope_type": "longrope", )" + std::string(kFactors)));
  EXPECT_EQ(rope.long_factor, (std::vector<double>{5, 6.5, 7, 8}));
  const auto lists = [](const std::string& short_factor, const std::string& long_factor) {
    return scaling(R"("rope_type": "longrope", "short_factor": )" + short_factor + R"(, "long_factor": )" +
                   long_factor);
  };
  const std::string four = "[1, 2, 3, 4]";
  for (const std::string bad : {"[1, 2, 3]", "[1, 2, 3, 4, 5]", "[]", "4", "[1, 2, 3, \"4\"]", "[1, 2, 3, 0]",
                                "[1, 2, 3, -4]", "[1, 2, 3, 1e300]", "{}"}) {
    expect_refused(lists(bad, four),
                   "rope_scaling.short_factor: expected a list of 4 numbers above 0, got " + bad.substr(0, 1));
    expect_refused(lists(four, bad), "rope_scaling.long_factor: expected a list of 4 numbers above 0");
  }
  expect_refused(scaling(R"("rope_type": "longrope", "short_factor": [1, 2, 3, 4])"),
                 "rope_scaling.long_factor is missing");
  expect_refused(scaling(R"("rope_type": "longrope", "short_mscale": 1.1, )" + std::string(kFactors)), "short_mscale");
  expect_refused(R"({"original_max_position_embeddings": 1, "rope_scaling": {"rope_type": "longrope", )" +
                     std::string(kFactors) + "}}",
                 "expected more than 1 for rope type longrope");
}

TEST(RopeConfigTest, Phi3) {
  const std::string factors(kFactors);
  for (const std::string type : {"longrope", "su", "yarn"}) {
    const RopeConfig rope = good(scaling(R"("type": ")" + type + R"(", )" + factors), kPhi3);
    EXPECT_EQ(rope.type, RopeType::kLongRope) << type;
    EXPECT_EQ(rope.original_max_position_embeddings, 4096) << type;
  }
  EXPECT_EQ(good(R"({"original_max_position_embeddings": 512, "rope_scaling": {"type": "su", )" + factors + "}}", kPhi3)
                .original_max_position_embeddings,
            512);
  expect_refused(scaling(R"("type": "su", "original_max_position_embeddings": 512, )" + factors), "say it there too",
                 kPhi3);
  expect_refused(scaling(R"("type": "linear", "factor": 2)"),
                 "unsupported rope type \"linear\"; supported: default, longrope", kPhi3);
}

TEST(RopeConfigTest, PartialRotation) {
  EXPECT_EQ(good(R"({"partial_rotary_factor": 0.5})", kPhi3).rotary_dim, 4);
  EXPECT_EQ(good(R"({"rope_parameters": {"partial_rotary_factor": 0.75}})", kPhi3).rotary_dim, 6);
  EXPECT_EQ(good(R"({"partial_rotary_factor": 0.4})", kPhi3).rotary_dim, 3);  // two frequencies over 3 features
  EXPECT_EQ(good(R"({"partial_rotary_factor": 0.4})", kPhi3).num_frequencies(), 2);
  EXPECT_EQ(good(R"({"partial_rotary_factor": 1.0})").rotary_dim, 8);
  expect_refused(R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor: expected 1, got 0.5");
  for (const std::string bad : {"0", "-0.5", "1.5", "\"1\""})
    expect_refused(R"({"partial_rotary_factor": )" + bad + "}", "partial_rotary_factor: expected a number above 0",
                   kPhi3);
  expect_refused(R"({"partial_rotary_factor": 0.1})", "is 0 features: expected at least one", kPhi3);
  expect_refused(R"({"partial_rotary_factor": 0.4, "rope_scaling": {"type": "su", )" + std::string(kFactors) + "}}",
                 "is 3 features: expected an even number", kPhi3);
}

TEST(RopeConfigTest, ARotationALayerType) {
  const std::string both = R"({"rope_parameters": {
    "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 5e5}, "sliding_attention": {"rope_theta": 77}}})";
  EXPECT_EQ(good(both, kGlobal).type, RopeType::kLinear);
  EXPECT_EQ(good(both, kGlobal).theta, 5e5);
  EXPECT_EQ(good(both, kLocal).type, RopeType::kDefault);
  EXPECT_EQ(good(both, kLocal).theta, 77.0);
  expect_refused(both, "rope_parameters.full_attention: this architecture has one rotation", kLlama);
  const std::string old = R"({"rope_scaling": {"rope_type": "linear", "factor": 8}, "rope_theta": 5e5,
                              "rope_local_base_freq": 77})";
  EXPECT_EQ(good(old, kGlobal).type, RopeType::kLinear);
  EXPECT_EQ(good(old, kGlobal).theta, 5e5);
  EXPECT_EQ(good(old, kLocal).type, RopeType::kDefault);
  EXPECT_EQ(good(old, kLocal).theta, 77.0);
  EXPECT_EQ(good("{}", kGlobal).theta, 1e6);
  EXPECT_EQ(good("{}", kLocal).theta, 1e4);
  const std::string one = R"({"rope_parameters": {"full_attention": {"rope_theta": 5}, "sliding_attention": null}})";
  EXPECT_EQ(good(one, kLocal).theta, 1e4);
  expect_refused(R"({"rope_parameters": {"full_attention": {}, "chunked_attention": {}}})",
                 "rope_parameters.chunked_attention: expected full_attention and sliding_attention alone", kGlobal);
  expect_refused(R"({"rope_parameters": {"full_attention": {}, "sliding_attention": 1e4}})",
                 "rope_parameters.sliding_attention: expected an object", kGlobal);
  expect_refused(R"({"rope_parameters": {"full_attention": {"rope_type": "linear"}, "sliding_attention": {}}})",
                 "rope_parameters.full_attention.factor is missing", kGlobal);
}

TEST(RopeConfigTest, ContextLength) {
  const auto lengths = [](const std::string& text, const RopeFamily& family = kLlama) {
    const ContextLength context = context_length(good(text, family));
    return std::pair(context.longest, context.standard);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(lengths("{}"), Pair(2048, 2048));
  EXPECT_EQ(lengths(scaling(R"("type": "linear", "factor": 2.5)")), Pair(5120, 5120));
  EXPECT_EQ(lengths(scaling(R"("type": "dynamic", "factor": 2)")), Pair(4096, 4096));
  EXPECT_EQ(lengths(scaling(R"("type": "yarn", "factor": 4, "original_max_position_embeddings": 1024)")),
            Pair(4096, 4096));
  EXPECT_EQ(lengths(scaling(R"("type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4)")),
            Pair(2048, 2048));
  EXPECT_EQ(lengths(R"({"original_max_position_embeddings": 64, "rope_scaling": {"type": "su", )" +
                        std::string(kFactors) + "}}",
                    kPhi3),
            Pair(2048, 64));
  EXPECT_EQ(lengths(scaling(R"("type": "linear", "factor": 8)"), kGlobal), Pair(2048, 2048));  // in the 2048 already
  EXPECT_EQ(lengths(scaling(R"("type": "linear", "factor": 1000000)")), Pair(1 << 22, 1 << 22));
}

}  // namespace
}  // namespace unspool
