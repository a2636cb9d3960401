// The model of tokenizer.json: from a piece of text to ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/vocabulary.h"

namespace unspool {

// Immutable; encode may be called from several threads at once, each with its own scratch.
class TokenModel {
 public:
  // Working memory of encode, kept from piece to piece by its caller; of the model that made it alone.
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };

  // `options`: an object whose fields stand for those of a BPE model beside vocab and merges; null: its own do. Errors:
  // kInvalidArgument naming a type other than BPE and Unigram, or what in it is malformed or not supported.
  static Result<std::unique_ptr<const TokenModel>> load(const JsonValue& json, const JsonValue& options);
  // Of the model `json`: as it says, or as old files tell by what they hold.
  static Result<std::string> type_of(const JsonValue& json);
  virtual ~TokenModel() = default;

  virtual std::unique_ptr<Scratch> make_scratch() const = 0;
  // Appends the ids of `piece`, valid UTF-8. Characters that are not in the vocabulary become byte tokens or the
  // unknown token, or nothing where there is neither.
  virtual void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // How many tokens it says it has: where the ids of added tokens begin.
  virtual size_t size() const { return vocabulary().size(); }
};

}  // namespace unspool
