// Random commands and requests, one call at a time: each is answered exactly once, no step runs on memory that is gone
// or on weights that nobody loaded, and what no change of weights touched says what it says alone. Invariants are
// validated after every operation.
#include <gtest/gtest.h>

#include <deque>

#include "control_harness.h"

namespace unspool {
namespace {

struct Tracked {
  Record record;
  EngineRequest request;
  uint64_t id = 0;
  bool dropped = false;
};

class ControlFuzz : public ::testing::TestWithParam<int> {
 protected:
  int below(int limit) { return static_cast<int>(generator_() % static_cast<uint64_t>(limit)); }
  bool one_in(int count) { return below(count) == 0; }

  EngineConfig random_config() {
    EngineConfig config = ControlHarness::sleepy();
    config.block_size = 4 << below(3);
    config.num_blocks = 8 + below(30);
    config.max_num_seqs = 1 + below(8);
    config.max_num_batched_tokens = 4 + below(60);
    config.enable_prefix_caching = !one_in(4);
    config.enable_sleep_mode = !one_in(6);
    return config;
  }
  EngineRequest random_request() {
    auto prompt = random_prompt(1 + below(20), below(6));
    prompt.insert(prompt.begin(), shared_.begin(), shared_.begin() + below(24));
    auto request = request_of(std::move(prompt), 1 + below(30), below(1000));
    request.external_id = std::to_string(below(8));
    request.params.n = one_in(3) ? 1 + below(4) : 1;
    return request;
  }
  PauseMode random_mode() { return static_cast<PauseMode>(below(3)); }
  std::optional<std::vector<std::string>> random_tags() {
    if (one_in(3)) return std::nullopt;
    const char* tags[] = {"weights", "kv_cache", "weights", "kv_cache", "scheduling", "nope"};
    std::vector<std::string> some;
    for (int i = below(3); i >= 0; --i) some.push_back(tags[below(6)]);
    return some;
  }

  // Every one is to be answered once.
  void random_command(ControlHarness& h) {
    const char* paths[] = {"", "a", "b", "a", "missing", "broken", "throws"};
    answers_.push_back(0);
    const auto callback = [this, index = answers_.size() - 1](const auto&) { ++answers_[index]; };
    const uint64_t session = h.memory.update.value_or(0) + (one_in(8) ? 1 : 0);
    switch (below(20)) {
      case 0:
      case 1:
        return h.control.pause(random_mode(), below(2) == 0, callback);
      case 2:
      case 3:
        return h.control.resume(callback);
      case 4:
      case 5:
        return h.control.sleep(below(3), random_mode(), callback);
      case 6:
      case 7:
        return h.control.wake_up(random_tags(), callback);
      case 8:
        return h.control.release_kv_cache_memory(callback);
      case 9:
        return h.control.reset_prefix_cache(below(2) == 0, callback);
      case 10:
        return h.control.abort(
            one_in(4) ? std::vector<std::string>() : std::vector<std::string>{std::to_string(below(8))}, callback);
      case 11:
        return h.control.update_weight_version("v" + std::to_string(++num_versions_), callback);
      case 12:
        return h.control.reload_weights({.weights_path = paths[below(7)]}, callback);
      case 13:
        return h.control.start_weight_update(callback);
      case 14:
      case 15:
        return h.control.hold_for_update(session, callback);
      case 16:
      case 17:
        return h.control.finish_weight_update(session, one_in(2), "u" + std::to_string(++num_versions_), callback);
      case 18:
        return h.control.drop_weight_update(session, "by chance", callback);
      default:
        return h.control.weight_checksums(callback);
    }
  }
  void random_fault(ControlHarness& h) {
    FakeMemory& memory = h.memory;
    memory.fail_back_up = one_in(6);
    memory.fail_release = one_in(8);
    memory.fail_restore_weights = one_in(6);
    memory.fail_restore_kv_cache = one_in(6);
    memory.changed_checkpoint = one_in(10);
    memory.fail_begin_update = one_in(8);
    memory.throw_commit = one_in(8);
    memory.whole = one_in(2);
  }
  void recover(ControlHarness& h) {
    h.memory.fail_back_up = h.memory.fail_release = h.memory.fail_restore_weights = false;
    h.memory.fail_restore_kv_cache = h.memory.changed_checkpoint = false;
    EXPECT_TRUE(h.drop_update().ok());
    EXPECT_TRUE(h.wake().ok());
    EXPECT_TRUE(h.reload("b").ok());
    h.run();
  }

  std::mt19937_64 generator_{static_cast<uint64_t>(GetParam())};
  const std::vector<int32_t> shared_ = random_prompt(24, 4711);
  std::vector<int> answers_;
  int num_versions_ = 0;
};

TEST_P(ControlFuzz, RandomCommands) {
  ControlHarness h(random_config());
  h.memory.in_place = one_in(2);
  std::deque<Tracked> all;
  for (int i = 0; i < 1500; ++i) {
    const int what = below(100);
    if (what < 12 && h.core.num_requests() < 12) {
      Tracked& tracked = all.emplace_back();
      tracked.request = random_request();
      tracked.id = h.add(tracked.record, tracked.request);
    } else if (what < 14 && !all.empty()) {
      Tracked& tracked = all[below(static_cast<int>(all.size()))];
      tracked.dropped = tracked.dropped || !tracked.record.finished();
      h.core.drop(tracked.id);
    } else if (what < 35) {
      random_fault(h);
      random_command(h);
      if (h.core.state().writing() && one_in(2)) h.memory.write();
    } else {
      h.step();
    }
    h.settle();
    for (const auto& violation : h.core.validate()) FAIL() << "operation " << i << ": " << violation;
    ASSERT_FALSE(HasFailure()) << "operation " << i;
  }
  recover(h);
  EXPECT_EQ(h.core.num_requests(), 0u);
  for (const Tracked& tracked : all) EXPECT_TRUE(tracked.dropped || tracked.record.finished());
  for (const int count : answers_) EXPECT_EQ(count, 1);

  // As a cold start on what was loaded last, prefix hits included.
  for (int i = 0; i < 10; ++i) {
    Record record;
    auto request = random_request();
    request.params.max_tokens = 1 + below(8);
    h.add(record, request);
    h.run();
    Record want = alone_under(FakeMemory::weights_of("b"), request);
    if (record.samples[0].token_ids.size() == want.samples[0].token_ids.size()) expect_same(record, want);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ControlFuzz, ::testing::Range(1, 21));

}  // namespace
}  // namespace unspool
