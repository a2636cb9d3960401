// Byte fallback: tokens <0x00> to <0xFF> that spell what the vocabulary has no token for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace unspool {

// The byte that a piece such as "<0x0A>" stands for, nullopt for any other piece.
std::optional<unsigned char> fallback_byte(std::string_view piece);

// The byte tokens of a vocabulary. It need not have them all.
class ByteTokens {
 public:
  ByteTokens() { ids_.fill(-1); }
  explicit ByteTokens(const Vocabulary& vocabulary);

  // Appends the token of every byte of `text`; false, and nothing, where one is missing.
  template <class Append>
  bool spell(std::string_view text, Append append) const {
    for (const char byte : text) {
      if (ids_[static_cast<unsigned char>(byte)] < 0) return false;
    }
    for (const char byte : text) append(ids_[static_cast<unsigned char>(byte)]);
    return true;
  }

 private:
  std::array<int32_t, 256> ids_{};  // -1 where absent
};

}  // namespace unspool
