#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>

#include "base/file.h"
#include "server/flag_help.h"
#include "server/flag_table.h"
#include "server/options.h"

namespace unspool {
namespace {

const char* no_environment(const char*) {
  return nullptr;
}

Result<ServeOptions> parse(std::vector<std::string> words, Environment environment = no_environment) {
  return parse_serve_options(words, environment);
}

ServeOptions good(std::vector<std::string> words, Environment environment = no_environment) {
  auto options = parse(std::move(words), environment);
  EXPECT_TRUE(options.ok()) << (options.ok() ? "" : options.error().message);
  return options.ok() ? *options : ServeOptions();
}

std::string refusal(std::vector<std::string> words) {
  const auto options = parse(std::move(words));
  EXPECT_FALSE(options.ok());
  return options.ok() ? "" : options.error().message;
}

TEST(Options, Spellings) {
  const auto options = good({"--max_num_seqs=4", "dir", "--max-model-len", "1k", "--no-enable-prefix-caching",
                             "--served-model-name", "a", "b", "--max_num_batched_tokens", "1K", "--port", "0"});
  EXPECT_EQ(options.model, "dir");
  EXPECT_EQ(options.max_num_seqs, 4);
  EXPECT_EQ(options.max_model_len, 1000);
  EXPECT_EQ(options.max_num_batched_tokens, 1024);
  EXPECT_FALSE(options.enable_prefix_caching);
  EXPECT_EQ(options.served_model_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(good({"--model", "dir"}).served_model_names, std::vector<std::string>{"dir"});
}

TEST(Options, DottedJson) {
  const auto options = good({"m", "--override-generation-config.top_k", "1", "--override_generation_config.a.b=x",
                             "--override-generation-config.top_p", "0.5"});
  EXPECT_EQ(options.override_generation_config, R"({"top_k":1,"a":{"b":"x"},"top_p":0.5})");
  EXPECT_EQ(good({"m", "-cc.mode", "3"}).ignored_flags, std::vector<std::string>{"--compilation-config"});
  EXPECT_NE(refusal({"m", "--override-generation-config", "{"}).find("override-generation-config"), std::string::npos);
}

TEST(Options, RefusedByName) {
  for (const auto& [words, named] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--speculative-config", "{}"}, "speculative-config"},
           {{"--enable-lora"}, "enable-lora"},
           {{"-tp", "2"}, "tensor-parallel-size"},
           {{"--weight-transfer-config", R"({"backend":"nccl"})"}, "torch.distributed"},
           {{"--weight-transfer-config", R"({"backend":"hccl"})"}, "torch.distributed"},
           {{"--weight-transfer-config", R"({"backend":"ipc","port":1})"}, "port"},
           {{"--weight-transfer-config", "{}"}, "backend"},
           {{"--weight-transfer-timeout", "0"}, "weight-transfer-timeout"},
           {{"--weight-transfer-timeout", "1e300"}, "weight-transfer-timeout"},
           {{"--weight-update-mode", "twice"}, "weight-update-mode"},
           {{"--transfer-python", ""}, "transfer-python"},
           {{"--sleep-level1-backing", "disk"}, "sleep-level1-backing"},
           {{"--additional-config", "[]"}, "additional-config"},
           {{"--additional-config", R"({"rl_config":1})"}, "rl_config"},
           {{"--additional-config", R"({"rl_config":{"enabled":1}})"}, "rl_config.enabled"},
           {{"--tool-parser-plugin", "x.py"}, "tool-parser-plugin"},
           {{"--tool-call-parser", "morse"}, "tool-call-parser"},
           {{"--enable-auto-tool-choice"}, "tool-call-parser"},
           {{"--reasoning-parser", "morse"}, "reasoning-parser"},
           {{"--tool-strict-level", "very"}, "tool-strict-level"},
           {{"--default-chat-template-kwargs", "[]"}, "default-chat-template-kwargs"},
           {{"--chat-template-content-format", "xml"}, "chat-template-content-format"},
           {{"--structured-outputs-config", R"({"backend":"outlines"})"}, "outlines"},
           {{"--structured-outputs-config.backend", "guidance"}, "guidance"},
           {{"--structured-outputs-config", "[]"}, "structured-outputs-config"},
           {{"--structured-outputs-config", R"({"disable_any_whitespace":true})"}, "only supported for xgrammar"},
           {{"--structured-outputs-config", R"({"disable_any_whitespace":1,"backend":"xgrammar"})"}, "true or false"},
           {{"--structured-outputs-config", R"({"disable_additional_properties":true})"}, "guidance backend"},
           {{"--structured-outputs-config", R"({"reasoning_parser":"qwen3"})"}, "reasoning_parser is not supported"},
           {{"--structured-outputs-config", R"({"max_depth":1})"}, "max_depth"},
           {{"--load-format", "gguf"}, "--load-format must be one of auto, safetensors, dummy, not 'gguf'"},
           {{"--load-format", "pt"}, "load-format"},
           {{"--quantization", "fp8"}, "quantization"},
           {{"--kv-cache-dtype", "fp8"}, "kv-cache-dtype"},
           {{"--dtype", "int3"}, "int3"},
           {{"--block-size", "12"}, "block-size"},
           {{"--block-size", "256"}, "block-size"},
           {{"--max-num-seqs", "none"}, "max-num-seqs"},
           {{"--max-num-seqs"}, "max-num-seqs"},
           {{"--max-num-seqs", "9", "--max-num-batched-tokens", "8"}, "max-num-batched-tokens (8)"},
           {{"--port", "70000"}, "port"},
           {{"--shutdown-timeout", "-1"}, "shutdown-timeout"},
           {{"--no-port"}, "--no-port"},
           {{"second"}, "second"},
           {{"--fingerprint-mode", "custom"}, "fingerprint-value"},
           {{"--config", "/nowhere.yaml"}, "/nowhere.yaml"}}) {
    std::vector<std::string> all = {"m"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_NE(refusal(all).find(named), std::string::npos) << named << ": " << refusal(all);
  }
  EXPECT_NE(refusal({"m", "--max-num-seq", "3"}).find("did you mean --max-num-seqs?"), std::string::npos);
  EXPECT_NE(refusal({}).find("MODEL"), std::string::npos);
}

TEST(Options, NeutralAndMeaninglessValuesPass) {
  const auto options = good({"m", "-tp", "1", "--no-enable-lora", "--quantization", "none", "--enforce-eager",
                             "--gpu-memory-utilization", "0.9", "--disable-log-requests", "--enable-chunked-prefill",
                             "--load-format", "auto", "--compilation-config", "{}", "--tool-call-parser", ""});
  EXPECT_EQ(options.ignored_flags,
            (std::vector<std::string>{"--enforce-eager", "--gpu-memory-utilization", "--disable-log-requests",
                                      "--enable-chunked-prefill", "--compilation-config"}));
}

TEST(Options, LoadFormat) {
  const auto plain = good({"m"});
  EXPECT_FALSE(plain.dummy_weights || good({"m", "--load-format", "safetensors"}).dummy_weights);
  EXPECT_EQ(good({"m", "--load-format", "auto"}).given, plain.given);
  const auto dummy = good({"m", "--load-format=dummy"});
  EXPECT_TRUE(dummy.dummy_weights);
  EXPECT_NE(dummy.given, plain.given) << "it changes what replies say";
}

TEST(Options, StructuredOutputs) {
  const auto plain = good({"m"});
  EXPECT_FALSE(plain.grammar.disable_any_whitespace);
  EXPECT_EQ(plain.grammar.compiler.limit_s, 5);
  EXPECT_EQ(plain.grammar.compiler.cache_bytes, size_t{512} << 20);
  const auto options = good({"m", "--structured-outputs-config",
                             R"({"backend":"xgrammar","disable_any_whitespace":true,"enable_in_reasoning":true,
                                 "reasoning_parser":"","reasoning_parser_plugin":""})"});
  EXPECT_TRUE(options.grammar.disable_any_whitespace);
  EXPECT_TRUE(options.grammar.enable_in_reasoning);
  EXPECT_NE(options.given, plain.given) << "it changes what replies say";
  EXPECT_TRUE(good({"m", "--structured-outputs-config.backend", "auto"}).grammar.directory.empty());
}

TEST(Options, ConfigFileBelowTheCommandLine) {
  const std::string path = ::testing::TempDir() + "options_test.yaml";
  std::ofstream(path) << "model: dir\nmax-model-len: 128\nenable_prefix_caching: false\nmax-num-seqs: 4\n"
                         "served-model-name: [x, y]\noverride-generation-config: {top_k: 3, name: \"7\"}\n";
  const auto options = good({"--config", path, "--max-model-len", "96"});
  EXPECT_EQ(options.model, "dir");
  EXPECT_EQ(options.max_model_len, 96);
  EXPECT_EQ(options.max_num_seqs, 4);
  EXPECT_FALSE(options.enable_prefix_caching);
  EXPECT_EQ(options.served_model_names, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(options.override_generation_config, R"({"top_k":3,"name":"7"})");
  std::ofstream(path) << "no-such-flag: 1\n";
  EXPECT_NE(refusal({"m", "--config", path}).find("no-such-flag"), std::string::npos);
}

TEST(Options, HostileConfigFiles) {
  const std::string path = ::testing::TempDir() + "options_test.yaml";
  std::string doubling = "hf-overrides:\n  a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) doubling += fmt::format("  a{0}: &a{0} [*a{1}, *a{1}]\n", i, i - 1);
  for (const std::string& text :
       {std::string("hf-overrides: &a\n  x: *a\n"), std::string("hf-overrides: &a [*a]\n"),
        std::string("&a\nhf-overrides: *a\n"), std::string("api-key: &a [*a]\n"), doubling,
        "hf-overrides: " + std::string(100000, '['), std::string("a: b: c"), std::string("- x"), std::string("\"")}) {
    std::ofstream(path) << text;
    EXPECT_NE(refusal({"m", "--config", path}).find("--config"), std::string::npos) << text.substr(0, 80);
  }
  EXPECT_NE(refusal({"m", "--config", ::testing::TempDir()}).find("--config"), std::string::npos);
}

TEST(Options, WholeNumbersAreExact) {
  EXPECT_EQ(good({"m", "--seed", "9007199254740993"}).seed, 9007199254740993);
  EXPECT_EQ(good({"m", "--seed=-9223372036854775808"}).seed, std::numeric_limits<int64_t>::min());
  EXPECT_NE(refusal({"m", "--seed", "9223372036854775808"}).find("--seed"), std::string::npos);
}

TEST(Options, AnEmptyApiKeyIsRefused) {
  EXPECT_NE(refusal({"m", "--api-key", ""}).find("--api-key"), std::string::npos);
  EXPECT_NE(refusal({"m", "--api-key", "k", ""}).find("--api-key"), std::string::npos);
}

TEST(Options, Environment) {
  const auto environment = [](const char* name) -> const char* {
    const std::string_view n = name;
    if (n == "VLLM_API_KEY") return "secret";
    if (n == "VLLM_CPU_KVCACHE_SPACE") return "1.5";
    if (n == "VLLM_MAX_STOP_STRINGS") return "8";
    return nullptr;
  };
  const auto options = good({"m"}, environment);
  EXPECT_EQ(options.api_keys, std::vector<std::string>{"secret"});
  EXPECT_EQ(options.kv_cache_bytes, int64_t{3} << 29);
  EXPECT_EQ(options.max_stop_strings, 8);
  EXPECT_EQ(good({"m", "--api-key", "k", "--kv-cache-memory-bytes", "1M"}, environment).kv_cache_bytes, 1 << 20);
}

// A step that had no room for every sequence would let some wait for others to end.
TEST(Options, EverySequenceHasATokenInAStep) {
  const auto limits = [](std::vector<std::string> words) {
    const ServeOptions options = good(std::move(words));
    return std::pair(options.max_num_seqs, options.max_num_batched_tokens);
  };
  EXPECT_EQ(limits({"m"}), std::pair(256, 256));
  EXPECT_EQ(limits({"m", "--max-num-seqs", "1000"}), std::pair(1000, 1000));
  EXPECT_EQ(limits({"m", "--max-num-seqs", "4"}), std::pair(4, 256));
  EXPECT_EQ(limits({"m", "--max-num-batched-tokens", "17"}), std::pair(17, 17));
  EXPECT_EQ(limits({"m", "--max-num-batched-tokens", "999"}), std::pair(256, 999));
}

TEST(Options, ControlPlane) {
  const auto plain = good({"m"});
  EXPECT_FALSE(plain.control.dev_routes);
  EXPECT_FALSE(plain.control.enable_sleep_mode);
  EXPECT_FALSE(plain.control.level1_in_memory);
  const auto options =
      good({"m", "--enable-sleep-mode", "--sleep-preserve-parameter-names", "draft.*", "lm_head.*", "--sleep-directory",
            "/d", "--sleep-level1-backing", "memory", "--weight-directory", "/a", "/b", "--unguarded-dev-routes"});
  EXPECT_TRUE(options.control.enable_sleep_mode);
  EXPECT_EQ(options.control.preserve_parameter_names, (std::vector<std::string>{"draft.*", "lm_head.*"}));
  EXPECT_EQ(options.control.sleep_directory, "/d");
  EXPECT_TRUE(options.control.level1_in_memory);
  EXPECT_EQ(options.control.weight_directories, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_TRUE(options.control.unguarded_dev_routes);
  EXPECT_FALSE(options.control.dev_routes);
}

TEST(Options, DevelopmentMode) {
  const auto variable = [](const char* name, const char* value) {
    static std::string wanted, text;
    wanted = name;
    text = value;
    return [](const char* asked) -> const char* { return wanted == asked ? text.c_str() : nullptr; };
  };
  for (const char* name : {"VLLM_SERVER_DEV_MODE", "UNSPOOL_SERVER_DEV_MODE"}) {
    for (const char* on : {"1", "2", " 1 "}) EXPECT_TRUE(good({"m"}, variable(name, on)).control.dev_routes) << on;
    EXPECT_FALSE(good({"m"}, variable(name, "0")).control.dev_routes);
    for (const char* bad : {"true", "", "yes"}) {
      const auto options = parse({"m"}, variable(name, bad));
      ASSERT_FALSE(options.ok()) << bad;
      EXPECT_NE(options.error().message.find(name), std::string::npos);
    }
  }
  EXPECT_TRUE(good({"m", "--additional-config", R"({"rl_config":{"enabled":true}})"}).control.dev_routes);
  const auto all = good({"m", "--additional-config",
                         R"({"rl_config":{"enabled":true,"sleep_mode_extra_cleanup":true,)"
                         R"("enable_training_consistency":true,"enable_batch_invariant":true},"other":1})"});
  EXPECT_EQ(all.control.always_so, (std::vector<std::string>{"enable_training_consistency", "enable_batch_invariant"}));
  const auto off = good({"m", "--additional-config.rl_config.enable_batch_invariant", "true"});
  EXPECT_FALSE(off.control.dev_routes);
  EXPECT_TRUE(off.control.always_so.empty());
}

TEST(Options, HelpAndDocumentationNameEveryFlag) {
  const std::string help = serve_help();
  for (const FlagGroup& group : flag_groups()) {
    for (const FlagSpec& flag : group.flags) {
      EXPECT_NE(help.find("--" + std::string(flag.name)), std::string::npos) << flag.name;
      EXPECT_EQ(find_flag(flag.name), &flag) << "two flags are called " << flag.name;
    }
  }
  const auto page = read_file(UNSPOOL_TEST_DATA "/../../docs/flags.md");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(*page, flags_markdown()) << "docs/flags.md is old: unspool serve --help-markdown > docs/flags.md";
}

}  // namespace
}  // namespace unspool
