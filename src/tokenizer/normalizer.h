// The normalizer of tokenizer.json: normal forms and sequences of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"
#include "unicode/normalize.h"

namespace unspool {

class Normalizer {
 public:
  // Null is none. Errors: kInvalidArgument naming a type other than NFC, NFD, NFKC, NFKD and Sequence.
  static Result<Normalizer> load(const JsonValue& json);

  bool is_identity() const { return forms_.empty(); }
  std::string apply(std::string_view text) const;  // valid UTF-8 to valid UTF-8

 private:
  std::vector<unicode::NormalForm> forms_;  // one after the other
};

}  // namespace unspool
