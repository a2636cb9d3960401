// The normalizer of tokenizer.json: what a text becomes before it is cut.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"

namespace unspool {

struct NormalizedText {
  std::string text;                // valid UTF-8
  bool begins_at_original = true;  // false once characters at its start were taken away (Metaspace asks)
};

// One step. Immutable; apply may be called from several threads at once.
class NormalizerPart {
 public:
  virtual ~NormalizerPart() = default;
  virtual void apply(NormalizedText& text) const = 0;
};

class Normalizer {
 public:
  // Null is none. Errors: kInvalidArgument naming a type that `tokenizers` does not have, or a field of the wrong kind.
  static Result<Normalizer> load(const JsonValue& json);

  bool is_identity() const { return parts_.empty(); }
  NormalizedText apply(std::string_view text) const;  // of valid UTF-8

 private:
  Status add(const JsonValue& json);

  std::vector<std::unique_ptr<const NormalizerPart>> parts_;  // one after the other
};

}  // namespace unspool
