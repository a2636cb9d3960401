// ModelMemory over a ModelRunner: what of the model lies in memory, what the mapped checkpoint can give back, and what
// only a backup can.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layers/weight_staging.h"
#include "runner/model_memory.h"
#include "runner/model_runner.h"
#include "runner/sleep_file.h"
#include "threading/thread_pool.h"
#include "weights/checkpoint.h"

namespace unspool {

struct RunnerMemoryOptions {
  std::string sleep_directory = default_sleep_directory();  // --sleep-directory
  bool keep_in_memory = false;                              // --sleep-level1-backing memory
  // --sleep-preserve-parameter-names: globs over the checkpoint's names, kept where weights are discarded.
  std::vector<std::string> preserve_names;
};

class RunnerMemory final : public ModelMemory {
 public:
  // `checkpoint` is the one that the runner's model was loaded from; it stays mapped, for wakes. Runner and pool
  // outlive this.
  // `staging` is of the runner's weights; null: there are no updates.
  RunnerMemory(ModelRunner& runner, Checkpoint checkpoint, ThreadPool& pool, RunnerMemoryOptions options,
               WeightStaging* staging = nullptr);

  size_t weight_bytes() const override { return weights_.size_bytes(); }
  size_t kv_cache_bytes() const override { return runner_.kv_cache_bytes(); }

  void release_kv_cache() override { runner_.release_kv_cache(); }
  Status restore_kv_cache() override { return runner_.restore_kv_cache(); }

  Status back_up_weights() override;
  Status release_weights(bool backed_up) override;
  Status restore_weights() override;

  // kConflict: the checkpoint was written to while it was read, and the old weights are back. kInternal: they are not,
  // and the weights are undefined.
  Status reload_weights(const ReloadRequest& request) override;
  Status begin_update(uint64_t session) override;
  bool updates_in_place() const override {
    return staging_ != nullptr && staging_->mode() == WeightUpdateMode::kInPlace;
  }
  Result<bool> commit_update(bool partial) override;
  bool drop_update() override;
  Status save_weights(const SaveRequest& request) const override;
  void zero_weights() override;
  std::map<std::string, std::string> weight_checksums() const override;

 private:
  enum class Content {
    kClean,      // what the mapped checkpoint has
    kDirty,      // anything else
    kUndefined,  // discarded: zeros, but for the preserved ones
  };
  struct Preserved {
    size_t parameter;
    std::vector<std::byte> bytes;
  };
  Result<std::vector<Preserved>> copy_preserved() const;
  // Tensors that an update would have to bring to leave nothing undefined.
  std::vector<std::string> missing_from_update() const;
  Status allocate();
  Status load_clean();
  Status read_backup();

  ModelRunner& runner_;
  WeightSet& weights_;
  Checkpoint checkpoint_;
  ThreadPool& pool_;
  RunnerMemoryOptions options_;
  WeightStaging* staging_;
  Content content_ = Content::kClean;
  bool released_ = false;
  std::optional<SleepFile> backup_;  // matrices in the order of WeightSet::storage(); vectors stay in memory
  std::vector<Preserved> preserved_;
  std::set<std::string> defined_;  // where the content is undefined: what is right all the same
};

}  // namespace unspool
