// Byte-pair encoding of one piece of text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/byte_fallback.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/token_model.h"
#include "tokenizer/vocabulary.h"

namespace unspool {

class BpeModel final : public TokenModel {
 public:
  // Vocabulary and merges of `json`, the rest of `options`. Errors: kInvalidArgument naming what is not supported
  // (dropout, a subword prefix or suffix) or malformed (a merge of tokens that are not in the vocabulary).
  static Result<BpeModel> load(const JsonValue& json, const JsonValue& options);

  std::unique_ptr<TokenModel::Scratch> make_scratch() const override;
  // n log n in the length of the piece.
  void encode(std::string_view piece, TokenModel::Scratch& scratch, std::vector<int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  class Scratch;
  struct Symbol {
    int32_t id;
    int32_t previous;  // indices of neighbours, -1 at the ends
    int32_t next;
  };
  // A merge that was possible when it was noted. Ordered by rank, then from left to right.
  struct Candidate {
    uint32_t rank;
    int32_t position;
    int32_t new_id;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };

  Status load_vocabulary(const JsonValue& json);
  Status load_merges(const JsonValue& json);
  void index_characters();
  int32_t character_id(std::string_view piece, size_t at, size_t& size_bytes) const;
  void split_into_symbols(std::string_view piece, Scratch& scratch) const;
  void merge_symbols(Scratch& scratch) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<int32_t, kByteLevelEnd>
      character_ids_{};  // of the byte-level alphabet and its neighbours, -1 where absent
  int32_t unknown_id_ = -1;
  bool byte_fallback_ = false;  // an unknown character is its byte tokens, where the vocabulary has them
  ByteTokens byte_tokens_;
  bool fuse_unknown_ = false;   // a run of unknown characters is one unknown token
  bool ignore_merges_ = false;  // a piece that is in the vocabulary is that token, whatever the merges say
};

}  // namespace unspool
