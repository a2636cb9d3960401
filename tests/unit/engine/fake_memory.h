// The memory of the fake model. While it is asleep its content is poison, and a step is a failure.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "fake_executor.h"
#include "runner/model_memory.h"

namespace unspool {

class FakeMemory final : public ModelMemory {
 public:
  static constexpr uint64_t kServed = 0;
  static constexpr uint64_t kPoison = 0xBAD0BAD0BAD0;

  explicit FakeMemory(FakeExecutor& executor) : executor_(executor) {
    executor_.before_execute = [this](const StepPlan&) { expect_awake(); };
  }
  void expect_awake() const {
    EXPECT_FALSE(weights_released) << "a step without weights";
    EXPECT_FALSE(kv_cache_released) << "a step without a cache";
    EXPECT_NE(executor_.weights, kPoison) << "a step with weights that nobody loaded";
  }

  size_t weight_bytes() const override { return 1 << 20; }
  size_t kv_cache_bytes() const override { return 1 << 19; }

  void release_kv_cache() override {
    EXPECT_FALSE(kv_cache_released);
    kv_cache_released = true;
    executor_.fill_cache(kPoison);
  }
  Status restore_kv_cache() override {
    EXPECT_TRUE(kv_cache_released);
    if (fail_restore_kv_cache) return internal_error("no memory for the cache");
    kv_cache_released = false;
    executor_.fill_cache(0);
    return {};
  }

  Status back_up_weights() override {
    EXPECT_FALSE(weights_released);
    if (fail_back_up) return internal_error("no space for the weights");
    backup_ = executor_.weights;
    return {};
  }
  Status release_weights(bool backed_up) override {
    EXPECT_FALSE(weights_released);
    if (fail_release) return internal_error("the weights cannot be released");
    if (!backed_up) backup_.reset();
    EXPECT_TRUE(!backed_up || backup_ == executor_.weights);
    weights_released = true;
    executor_.weights = kPoison;
    return {};
  }
  Status restore_weights() override {
    EXPECT_TRUE(weights_released);
    if (fail_restore_weights) return internal_error("no memory for the weights");
    weights_released = false;
    if (changed_checkpoint) return Error{ErrorKind::kConflict, "the checkpoint has changed", {}};
    executor_.weights = backup_.value_or(kPoison);
    return {};
  }

  Status reload_weights(const ReloadRequest& request) override {
    EXPECT_FALSE(weights_released);
    if (request.weights_path == "missing") return not_found("no such directory");
    if (request.weights_path == "broken") return invalid_argument("a tensor has the wrong shape");
    if (request.weights_path == "throws") {
      executor_.weights = kPoison;
      throw std::runtime_error("half-way");
    }
    executor_.weights = weights_of(request.weights_path);
    return {};
  }
  Status begin_update(uint64_t session) override {
    EXPECT_FALSE(weights_released);
    EXPECT_FALSE(update.has_value()) << "a session within another";
    if (fail_begin_update) return internal_error("no transfer is configured");
    update = session;
    were_defined_ = executor_.weights != kPoison;
    written_ = false;
    return {};
  }
  // A tensor of the session, in place: until it is finished nothing may step.
  void write() {
    EXPECT_TRUE(in_place && update.has_value());
    written_ = true;
    executor_.weights = kPoison;
  }
  bool updates_in_place() const override { return in_place; }
  Result<bool> commit_update(bool partial) override {
    EXPECT_FALSE(weights_released);
    EXPECT_TRUE(update.has_value());
    if (throw_commit) throw std::runtime_error("half-way");
    if (!whole && !partial) return invalid_argument("tensors are missing");
    update.reset();
    const bool defined = whole || were_defined_;
    if (defined) executor_.weights = weights_of("update");
    return defined;
  }
  bool drop_update() override {
    EXPECT_TRUE(update.has_value());
    update.reset();
    return written_;
  }

  void zero_weights() override {
    EXPECT_FALSE(weights_released);
    executor_.weights = 1;
  }
  std::map<std::string, std::string> weight_checksums() const override {
    EXPECT_FALSE(weights_released);
    return {{"w", std::to_string(executor_.weights)}};
  }

  static uint64_t weights_of(const std::string& path) {
    return path.empty() ? kServed : 1000 + std::hash<std::string>()(path) % 1000;
  }

  bool weights_released = false;
  bool kv_cache_released = false;
  bool fail_back_up = false;
  bool fail_release = false;
  bool fail_restore_weights = false;
  bool fail_restore_kv_cache = false;
  bool changed_checkpoint = false;
  bool fail_begin_update = false;
  bool throw_commit = false;
  bool in_place = false;
  bool whole = true;               // what the session brings
  std::optional<uint64_t> update;  // the open session

 private:
  FakeExecutor& executor_;
  std::optional<uint64_t> backup_;
  bool were_defined_ = true;  // before the session
  bool written_ = false;
};

}  // namespace unspool
