// Unigram language model: the most likely way to cut a piece of text into tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/byte_fallback.h"
#include "tokenizer/prefix_trie.h"
#include "tokenizer/token_model.h"
#include "tokenizer/vocabulary.h"

namespace unspool {

class UnigramModel final : public TokenModel {
 public:
  // Errors: kInvalidArgument naming what is malformed.
  static Result<UnigramModel> load(const JsonValue& json);

  std::unique_ptr<TokenModel::Scratch> make_scratch() const override;
  // Takes the length of the piece times that of the longest token, at most.
  void encode(std::string_view piece, TokenModel::Scratch& scratch, std::vector<int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  size_t size() const override { return scores_.size(); }

 private:
  class Scratch;
  // The best way to cut what comes before a place: its score, and the token that ends there.
  struct Node {
    double score = 0;
    int64_t begin = -1;  // of that token; -1: no way yet
    int32_t id = 0;
  };
  // A part of the best way, [begin, end) in bytes.
  struct Part {
    size_t begin;
    size_t end;
  };

  Status load_vocabulary(const JsonValue& json);
  void find_best_path(std::string_view piece, std::vector<Node>& nodes) const;
  void trace_back(const std::vector<Node>& nodes, std::vector<Part>& parts) const;
  void append_ids(std::string_view part, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  PrefixTrie trie_;
  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  int32_t unknown_id_ = -1;
  bool byte_fallback_ = false;
  ByteTokens byte_tokens_;
};

}  // namespace unspool
