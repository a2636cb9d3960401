// Committed hashes: a file of "name hash" lines. A comparison of a build with itself misses what moves in every place
// at once.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <ios>
#include <map>
#include <string>

namespace unspool {

class GoldenHashes {
 public:
  // `name`: of a file in tests/data/golden.
  explicit GoldenHashes(const std::string& name) : path_(std::string(UNSPOOL_TEST_DATA) + "/golden/" + name) {
    std::ifstream file(path_);
    std::string key;
    uint64_t hash = 0;
    while (file >> key >> std::hex >> hash) expected_[key] = hash;
  }
  // UNSPOOL_UPDATE_GOLDEN=1 writes the file anew. A change of a line is a change of the contract: say why in the
  // commit.
  ~GoldenHashes() {
    if (!update_) return;
    std::ofstream file(path_);
    for (const auto& [key, hash] : expected_) file << key << ' ' << std::hex << hash << '\n';
  }
  GoldenHashes(const GoldenHashes&) = delete;
  GoldenHashes& operator=(const GoldenHashes&) = delete;

  void expect(const std::string& key, uint64_t hash) {
    if (update_) {
      const bool added = seen_.emplace(key, hash).second;
      EXPECT_TRUE(added || seen_[key] == hash) << key << " differs within this run";
      expected_[key] = hash;
      return;
    }
    const auto found = expected_.find(key);
    ASSERT_NE(found, expected_.end()) << path_ << " has no " << key;
    EXPECT_EQ(found->second, hash) << key << " is not what " << path_ << " says";
  }

 private:
  std::string path_;
  std::map<std::string, uint64_t> expected_, seen_;
  bool update_ = std::getenv("UNSPOOL_UPDATE_GOLDEN") != nullptr;
};

}  // namespace unspool
