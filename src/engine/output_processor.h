// From the tokens of one sample to its text: detokenizing and stop strings.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/stop_check.h"
#include "engine/stop_strings.h"
#include "request/request.h"
#include "tokenizer/incremental_detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace unspool {

class OutputProcessor {
 public:
  // `tokenizer` may be null: then there is no text. `request` must outlive the processor.
  OutputProcessor(const std::shared_ptr<const Tokenizer>& tokenizer, const Request& request);

  // Takes the last token of `sequence`, which ends with `stop` where that is set, and puts the text that can go out
  // into `delta`. A stop string found here overrides `stop`.
  std::optional<Stop> push(const Sequence& sequence, std::optional<Stop> stop, SequenceDelta& delta);
  // The text held back so far, of a sequence that ends without a further token.
  void flush(SequenceDelta& delta);

 private:
  const SamplingParams& params_;
  std::optional<IncrementalDetokenizer> detokenizer_;
  StopStringMatcher stop_strings_;
};

}  // namespace unspool
