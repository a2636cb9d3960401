// A model in a directory of its own, behind a RunnerMemory, and checkpoints to load into it.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "../weights/weights_test_util.h"
#include "base/check.h"
#include "base/sha256.h"
#include "runner/runner_memory.h"
#include "runner_fixture.h"

namespace unspool {

// Copies a model of tests/data/models; f(tensors) may change what the copy's checkpoint has.
template <class F>
void copy_model(const std::string& name, const TempDir& to, F&& f) {
  const std::string from = models_dir() + name;
  to.write("config.json", read_file(from + "/config.json").value());
  const Checkpoint checkpoint = Checkpoint::open(from).value();
  std::vector<TestTensor> tensors;
  for (const std::string& tensor_name : checkpoint.names()) {
    const CheckpointTensor tensor = *checkpoint.find(tensor_name);
    tensors.push_back({tensor.name, std::string(safetensors_name(tensor.dtype)), tensor.shape.to_string(),
                       std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size())});
  }
  f(tensors);
  to.write("model.safetensors", safetensors_of(tensors));
}

// Other weights of the same shapes: every tensor's bytes taken from another place within it.
inline void perturb(std::vector<TestTensor>& tensors) {
  for (TestTensor& tensor : tensors)
    std::rotate(tensor.bytes.begin(), tensor.bytes.begin() + static_cast<int64_t>(tensor.bytes.size() / 8 * 4),
                tensor.bytes.end());
}

inline std::pair<size_t, size_t> statm_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0, resident = 0;
  statm >> total >> resident;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return {total * page, resident * page};
}
inline size_t virtual_bytes() {
  return statm_bytes().first;
}
inline size_t resident_bytes() {
  return statm_bytes().second;
}

// A model that sleeps.
class Sleeper {
 public:
  Sleeper(const std::string& dir, RunnerMemoryOptions options, int threads = 2, DType dtype = DType::kBFloat16,
          WeightUpdateMode mode = WeightUpdateMode::kDoubleBuffer)
      : pool_(threads), backend_(cpu::CpuBackend::create(pool_, "").value()) {
    const ModelConfig config = load_model_config(dir).value();
    Checkpoint checkpoint = Checkpoint::open(dir).value();
    const ModelOptions model_options{.dtype = dtype, .max_tokens = 512, .max_positions = 512, .max_logits_rows = 32};
    auto model = CausalLm::load(config, checkpoint, *backend_, model_options, [](size_t) {}).value();
    auto cache = backend_->make_kv_cache(kv_cache_shape(config, 16, kBlocks, DType::kBFloat16)).value();
    runner_ = std::make_unique<ModelRunner>(std::move(model), std::move(cache), model_options.max_logits_rows);
    staging_ = std::make_unique<WeightStaging>(runner_->model().weights(), *transfer_backend_, mode);
    memory_ =
        std::make_unique<RunnerMemory>(*runner_, std::move(checkpoint), pool_, std::move(options), staging_.get());
  }

  RunnerMemory& memory() { return *memory_; }
  WeightStaging& staging() { return *staging_; }
  ModelRunner& runner() { return *runner_; }

  // The logits after a fixed prompt: the bits of everything at once.
  std::vector<float> logits() {
    StepPlan plan;
    ScheduledSequence sequence{.sequence_id = 1, .start = 0, .token_ids = {}, .block_table = {}, .logits_rows = {}};
    for (int i = 0; i < 40; ++i) sequence.token_ids.push_back(7 * i % 320);
    sequence.block_table = {2, 0, 1};
    sequence.logits_rows = {0, 20, 39};
    plan.blocks_to_zero = sequence.block_table;
    plan.sequences.push_back(sequence);
    runner_->execute(plan);
    int64_t stride = 0;
    const auto rows = runner_->logits(0, 3, &stride);
    return {rows.begin(), rows.end()};
  }

  Status sleep(bool backed_up) {
    if (backed_up) UNSPOOL_TRY(memory_->back_up_weights());
    UNSPOOL_TRY(memory_->release_weights(backed_up));
    memory_->release_kv_cache();
    return {};
  }
  Status wake() {
    UNSPOOL_TRY(memory_->restore_weights());
    return memory_->restore_kv_cache();
  }

 private:
  static constexpr int64_t kBlocks = 64;
  ThreadPool pool_;
  std::unique_ptr<cpu::CpuBackend> backend_;
  std::unique_ptr<ModelRunner> runner_;
  ThreadPool transfer_pool_{2};
  std::unique_ptr<cpu::CpuBackend> transfer_backend_ = cpu::CpuBackend::create(transfer_pool_, "").value();
  std::unique_ptr<WeightStaging> staging_;
  std::unique_ptr<RunnerMemory> memory_;
};

}  // namespace unspool
