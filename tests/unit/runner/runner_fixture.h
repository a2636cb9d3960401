// A model of tests/data/models behind a ModelRunner, and sequences fed to it in any schedule.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../support/bits.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa.h"
#include "base/file.h"
#include "json/json.h"
#include "models/causal_lm.h"
#include "runner/model_runner.h"

namespace unspool {

inline std::string models_dir() {
  return std::string(UNSPOOL_TEST_DATA) + "/models/";
}

// The directories of tests/data/models, sorted.
inline std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(models_dir())) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

struct Served {
  std::string model;
  DType dtype = DType::kBFloat16;
  MatmulPrecision precision = MatmulPrecision::kBf16;
  std::string isa = {};  // the best
  int threads = 1;
  int64_t block_size = 16;
  bool keeps_experts = false;
  int max_positions = 512;
};

class ServedModel {
 public:
  static constexpr int kMaxTokens = 512;

  explicit ServedModel(const Served& served)
      : served_(served), pool_(served.threads), backend_(cpu::CpuBackend::create(pool_, served.isa).value()) {
    const std::string dir = models_dir() + served.model;
    const ModelConfig config = load_model_config(dir).value();
    const Checkpoint checkpoint = Checkpoint::open(dir).value();
    const ModelOptions options{.dtype = served.dtype,
                               .precision = served.precision,
                               .head_precision = served.precision,
                               .max_tokens = kMaxTokens,
                               .max_positions = served.max_positions,
                               .max_logits_rows = 32};
    auto model = CausalLm::load(config, checkpoint, *backend_, options, [](size_t) {}).value();
    auto cache = backend_->make_kv_cache(kv_cache_shape(config, served.block_size, kBlocks, served.dtype)).value();
    std::unique_ptr<RoutedExpertsStore> store;
    if (served.keeps_experts)
      store = RoutedExpertsStore::create(routed_experts_shape(config), kBlocks, served.block_size).value();
    runner_ =
        std::make_unique<ModelRunner>(std::move(model), std::move(cache), options.max_logits_rows, std::move(store));
  }

  int64_t vocab_size() const { return runner_->vocab_size(); }
  ModelRunner& runner() { return *runner_; }
  const ModelRunner& runner() const { return *runner_; }

  // Blocks for `tokens` positions that no other sequence has, out of order.
  std::vector<int32_t> blocks(int64_t tokens) {
    std::vector<int32_t> table;
    for (int64_t at = 0; at < tokens; at += served_.block_size) {
      table.push_back(next_block_);
      next_block_ = (next_block_ + 11) % kBlocks;
    }
    return table;
  }

  // Tokens [start, start + ids.size()) of a sequence; appends the logits of all of them.
  void step(const std::vector<int32_t>& ids, int start, const std::vector<int32_t>& table, std::vector<float>* logits) {
    ScheduledSequence sequence{
        .sequence_id = 1, .start = start, .token_ids = ids, .block_table = table, .logits_rows = {}};
    for (int i = 0; i < static_cast<int>(ids.size()); ++i) sequence.logits_rows.push_back(i);
    StepPlan plan;
    if (start == 0) plan.blocks_to_zero = table;
    plan.sequences.push_back(sequence);
    runner_->execute(plan);
    EXPECT_TRUE(runner_->non_finite_sequences().empty());
    take_logits(static_cast<int>(ids.size()), logits);
  }
  void take_logits(int rows, std::vector<float>* logits) {
    for (int first = 0; first < rows; first += runner_->max_logits_rows()) {
      int64_t stride = 0;
      const auto part = runner_->logits(first, std::min(runner_->max_logits_rows(), rows - first), &stride);
      EXPECT_EQ(stride, vocab_size());
      logits->insert(logits->end(), part.begin(), part.end());
    }
  }

  // The logits [tokens, vocab_size] of a prompt, `chunk` tokens a step.
  std::vector<float> logits_of(const std::vector<int32_t>& ids, int chunk) {
    const std::vector<int32_t> table = blocks(static_cast<int64_t>(ids.size()));
    std::vector<float> logits;
    for (size_t start = 0; start < ids.size(); start += static_cast<size_t>(chunk)) {
      const size_t end = std::min(ids.size(), start + static_cast<size_t>(chunk));
      step({ids.begin() + static_cast<int64_t>(start), ids.begin() + static_cast<int64_t>(end)},
           static_cast<int>(start), table, &logits);
    }
    return logits;
  }

 private:
  static constexpr int32_t kBlocks = 128;  // a prime step of 11 visits every block before it comes back
  Served served_;
  ThreadPool pool_;
  std::unique_ptr<cpu::CpuBackend> backend_;
  std::unique_ptr<ModelRunner> runner_;
  int32_t next_block_ = 5;
};

// What float32 transformers gave (tools/make_golden.py).
struct GoldenModel {
  struct Greedy {
    std::vector<int32_t> prompt, token_ids;
    std::vector<double> logprobs;
  };
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::vector<double>> prompt_logprobs;  // [prompt][token], the first one left out
  std::vector<Greedy> greedy;
  std::vector<std::vector<std::vector<int32_t>>>
      routed_experts;                           // [prompt][token][layer, rank]; empty where there are none
  int max_model_len = ServedModel::kMaxTokens;  // to serve the model for
  std::optional<double> bf16_gap;               // median distance of transformers itself, in bf16

  explicit GoldenModel(const std::string& model, const std::string& file = "golden.json") {
    const auto document = JsonDocument::parse(read_file(models_dir() + model + "/" + file).value()).value();
    const JsonValue root = document.root();
    for (const JsonValue& prompt : root["prompts"].elements()) prompts.push_back(ids(prompt));
    for (const JsonValue& row : root["prompt_logprobs"].elements()) prompt_logprobs.push_back(numbers(row));
    for (const JsonValue& prompt : root["routed_experts"].elements()) {
      auto& rows = routed_experts.emplace_back();
      for (const JsonValue& row : prompt.elements()) rows.push_back(ids(row));
    }
    for (const JsonValue& run : root["greedy"].elements())
      greedy.push_back({ids(run["prompt"]), ids(run["token_ids"]), numbers(run["logprobs"])});
    for (const double length : numbers(root["max_model_len"])) max_model_len = static_cast<int>(length);
    for (const double gap : numbers(root["bf16_gap"])) bf16_gap = gap;
  }

  // golden.json, and golden_border.json where the model has other frequencies for short contexts.
  static std::vector<GoldenModel> sides(const std::string& model) {
    std::vector<GoldenModel> all{GoldenModel(model)};
    if (file_exists(models_dir() + model + "/golden_border.json")) all.emplace_back(model, "golden_border.json");
    return all;
  }

 private:
  static std::vector<int32_t> ids(const JsonValue& value) {
    const std::vector<int64_t> wide = value.as_int64_array().value();
    return {wide.begin(), wide.end()};
  }
  static std::vector<double> numbers(const JsonValue& value) {
    std::vector<double> all;
    for (const JsonValue& number : value.elements())
      if (!number.is_null()) all.push_back(number.as_double().value());
    return all;
  }
};

}  // namespace unspool
