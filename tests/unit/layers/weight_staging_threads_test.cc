// Puts on one thread, sessions that begin and end on another, readers beside both: whatever is cut when, a commit is
// whole and a drop is nothing.
#include <atomic>
#include <thread>

#include "staging_fixture.h"

namespace unspool {
namespace {

// One matrix of several pieces, two tensors in another, and a vector.
constexpr int64_t kRows = 4200, kColumns = 480;
constexpr const char* kNames[] = {"big", "left", "right", "norm"};

class StagingThreadsTest : public testing::TestWithParam<WeightUpdateMode> {
 protected:
  StagingThreadsTest() {
    EXPECT_TRUE(weights_.add_matrix({{"big", kRows}}, kColumns).ok());
    EXPECT_TRUE(weights_.add_matrix({{"left", 100}, {"right", 60}}, 32).ok());
    weights_.add_vector({{"norm", 64}});
    staging_ = std::make_unique<WeightStaging>(weights_, transfer_backend(), GetParam());
  }
  const Parameter& parameter(const std::string& name) const {
    for (const Parameter& each : weights_.parameters())
      if (each.name == name) return each;
    ADD_FAILURE() << name;
    return weights_.parameters()[0];
  }
  TensorSpec spec(const std::string& name) const {
    return {.name = name, .dtype = DType::kBFloat16, .shape = parameter(name).shape, .num_updates = {}};
  }
  static uint16_t value(uint64_t version) { return static_cast<uint16_t>(0x3c00 + version % 512); }
  Status put(uint64_t session, const std::string& name, uint64_t version) {
    const std::vector<uint16_t> values(static_cast<size_t>(parameter(name).shape.num_elements()), value(version));
    return staging_->put(session, spec(name), std::as_bytes(std::span(values)));
  }
  Status put_elements(uint64_t session, const std::string& name, uint64_t version) {
    TensorSpec sparse = spec(name);
    sparse.num_updates = sparse.shape.num_elements();
    const auto n = static_cast<size_t>(*sparse.num_updates);
    std::vector<std::byte> bytes(n * 6);
    for (size_t i = 0; i < n; ++i) {
      const auto index = static_cast<int32_t>(i);
      const uint16_t element = value(version);
      std::memcpy(bytes.data() + i * 4, &index, 4);
      std::memcpy(bytes.data() + n * 4 + i * 2, &element, 2);
    }
    return staging_->put(session, sparse, bytes);
  }
  // As a step does: reads all weights; true where every element of every tensor is that version's.
  bool serves(uint64_t version) const {
    const std::vector<uint16_t> expected(16 * kColumns, value(version));
    bool all = true;
    for (const Parameter& each : weights_.parameters())
      weights_.read(each, [&](const void* bytes, size_t size) {
        all = all && size <= expected.size() * 2 && std::memcmp(bytes, expected.data(), size) == 0;
      });
    return all;
  }

  WeightSet weights_{plain_backend(), DType::kBFloat16};
  std::unique_ptr<WeightStaging> staging_;
};

TEST_P(StagingThreadsTest, WhateverIsCutACommitIsWhole) {
  const bool in_place = GetParam() == WeightUpdateMode::kInPlace;
  std::atomic<uint64_t> open = 0;
  std::atomic<uint64_t> whole = 0;  // the session that has brought everything
  std::atomic<bool> stop = false;
  std::thread transfer([&] {
    uint64_t last = 0;
    while (!stop) {
      const uint64_t session = open;
      if (session == last) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        continue;
      }
      last = session;
      bool all = true;
      for (const char* name : kNames) {
        const bool in_part = std::string(name) != "big" || session % 4 == 3;
        all = all &&
              (session % 2 == 1 && in_part ? put_elements(session, name, session) : put(session, name, session)).ok();
      }
      all = all && staging_->settle(session).ok();
      if (all) whole = session;
    }
  });
  std::mt19937 random(1);
  uint64_t served = 0;
  int commits = 0, cuts = 0;
  for (uint64_t session = 1; session <= 24; ++session) {
    staging_->begin(session);
    open = session;
    if (random() % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    } else {
      while (whole != session) {
        if (!in_place && served != 0) {
          EXPECT_TRUE(serves(served));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    const Status committed = random() % 4 == 0 ? Status(internal_error("cut")) : staging_->commit();
    if (committed.ok()) {
      // Without all of them the rest is the old one's; what is not whole says so.
      if (whole == session) {
        served = session;
        ++commits;
        EXPECT_TRUE(serves(served));
      } else {
        served = 0;
      }
    } else {
      if (staging_->drop() && in_place) served = 0;
      ++cuts;
      if (served != 0) {
        EXPECT_TRUE(serves(served)) << "after the cut of session " << session;
      }
      if (session % 3 == 0) staging_->release();
    }
  }
  stop = true;
  transfer.join();
  EXPECT_GT(commits, 0);
  EXPECT_GT(cuts, 0);
}

// More elements than are queued for a commit: they come through the second copy.
TEST_P(StagingThreadsTest, ManyElementsComeThroughTheCopy) {
  staging_->begin(1);
  for (const char* name : kNames) ASSERT_TRUE(put(1, name, 1).ok());
  ASSERT_TRUE(staging_->commit().ok());
  staging_->begin(2);
  for (const char* name : kNames) ASSERT_TRUE(put_elements(2, name, 2).ok());
  EXPECT_EQ(serves(1), GetParam() == WeightUpdateMode::kDoubleBuffer);
  ASSERT_TRUE(staging_->commit().ok());
  EXPECT_TRUE(serves(2));
}

INSTANTIATE_TEST_SUITE_P(Modes, StagingThreadsTest,
                         testing::Values(WeightUpdateMode::kDoubleBuffer, WeightUpdateMode::kInPlace),
                         [](const auto& info) {
                           return info.param == WeightUpdateMode::kInPlace ? "in_place" : "double_buffer";
                         });

}  // namespace
}  // namespace unspool
