#include "tokenizer/vocabulary.h"

#include <bit>
#include <functional>

#include "base/check.h"

namespace unspool {
namespace {

uint32_t hash_of(std::string_view text) {
  return static_cast<uint32_t>(std::hash<std::string_view>{}(text));
}

}  // namespace

void Vocabulary::reserve(size_t num_tokens, size_t text_bytes) {
  UNSPOOL_CHECK(num_texts_ == 0, "reserve comes before add");
  arena_.reserve(text_bytes);
  slots_.resize(std::bit_ceil(2 * num_tokens + 2));
  texts_.reserve(num_tokens);
}

void Vocabulary::add(std::string_view text, int32_t id) {
  UNSPOOL_CHECK(id >= 0 && 2 * (num_texts_ + 1) <= slots_.size() && arena_.size() + text.size() <= arena_.capacity());
  const uint32_t hash = hash_of(text);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.id < 0) {
    const char* begin = arena_.data() + arena_.size();
    arena_.insert(arena_.end(), text.begin(), text.end());
    slot.text = {begin, text.size()};
    slot.hash = hash;
    ++num_texts_;
  }
  slot.id = id;
  if (id >= end_id()) texts_.resize(static_cast<size_t>(id) + 1);
  texts_[static_cast<size_t>(id)] = slot.text;
}

int32_t Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  return slots_[slot_of(text, hash_of(text))].id;
}

std::string_view Vocabulary::text(int32_t id) const {
  return id >= 0 && id < end_id() ? texts_[static_cast<size_t>(id)] : std::string_view();
}

size_t Vocabulary::slot_of(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id >= 0 && (slots_[at].hash != hash || slots_[at].text != text)) at = (at + 1) & mask;
  return at;
}

}  // namespace unspool
