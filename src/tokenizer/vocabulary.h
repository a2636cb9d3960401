// Token ids by text and text by id: a hash table over one buffer of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unspool {

// Filled once, then read. Views it gives stay valid while it lives and is not moved.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // Must be given room for everything that will be added: added text never moves.
  void reserve(size_t num_tokens, size_t text_bytes);
  // The last id given to a text and the last text given to an id hold. `id` is not negative.
  void add(std::string_view text, int32_t id);

  int32_t find(std::string_view text) const;                              // -1 where absent
  std::string_view text(int32_t id) const;                                // empty where absent
  size_t size() const { return num_texts_; }                              // distinct texts
  int32_t end_id() const { return static_cast<int32_t>(texts_.size()); }  // one more than the largest id

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;  // -1: free
    std::string_view text;
  };
  size_t slot_of(std::string_view text, uint32_t hash) const;  // its slot, or the free one that it would take

  std::vector<char> arena_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  std::vector<std::string_view> texts_;
  size_t num_texts_ = 0;
};

}  // namespace unspool
