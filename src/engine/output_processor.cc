#include "engine/output_processor.h"

namespace unspool {

OutputProcessor::OutputProcessor(const std::shared_ptr<const Tokenizer>& tokenizer, const Request& request)
    : params_(request.params()), stop_strings_(params_.stop, params_.include_stop_str_in_output) {
  if (tokenizer == nullptr || (!params_.detokenize && params_.stop.empty())) return;
  detokenizer_.emplace(tokenizer, request.spec().prompt_token_ids, params_.skip_special_tokens,
                       params_.spaces_between_special_tokens);
}

std::optional<Stop> OutputProcessor::push(const Sequence& sequence, std::optional<Stop> stop, SequenceDelta& delta) {
  if (!detokenizer_) return stop;
  const bool silent = stop && stop->by_token && !params_.include_stop_str_in_output;
  if (!silent) {
    const std::string text = detokenizer_->push(sequence.output_token_ids.back());
    const bool search = static_cast<int>(sequence.output_token_ids.size()) > params_.min_tokens;
    if (const auto match = stop_strings_.push(text, search)) {
      stop = Stop{FinishReason::kStop, params_.stop[*match], false};
    }
  }
  std::string ready = stop_strings_.take_ready();
  if (stop) ready += stop_strings_.take_rest();  // nothing, after a match
  if (params_.detokenize) delta.text += ready;
  return stop;
}

void OutputProcessor::flush(SequenceDelta& delta) {
  if (!detokenizer_) return;
  std::string rest = stop_strings_.take_rest();
  if (params_.detokenize) delta.text += rest;
}

}  // namespace unspool
