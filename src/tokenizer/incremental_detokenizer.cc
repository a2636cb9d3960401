#include <algorithm>
#include <utility>

#include "tokenizer/tokenizer.h"
#include "unicode/utf8.h"

namespace unspool {

IncrementalDetokenizer::IncrementalDetokenizer(std::shared_ptr<const Tokenizer> tokenizer,
                                               std::span<const int32_t> prompt_ids, bool skip_special_tokens,
                                               bool /*spaces_between_special_tokens*/)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {
  // An incomplete character has at most 3 bytes, so the last few tokens tell.
  constexpr size_t kEnoughBytes = 3;
  for (auto id = prompt_ids.rbegin(); id != prompt_ids.rend() && pending_.size() < kEnoughBytes; ++id) {
    if (!emits(*id)) continue;
    pending_.insert(0, has_text_before_ ? tokenizer_->separator() : std::string_view());
    pending_.insert(0, tokenizer_->id_to_bytes(*id));
    has_text_before_ = true;
  }
  pending_.erase(0, pending_.size() - unicode::incomplete_suffix(pending_));
}

bool IncrementalDetokenizer::emits(int32_t id) const {
  return !tokenizer_->id_to_piece(id).empty() && !(skip_special_tokens_ && tokenizer_->is_special(id));
}

std::string IncrementalDetokenizer::push(int32_t id) {
  if (!emits(id)) return {};
  if (has_text_before_) pending_.append(tokenizer_->separator());
  has_text_before_ = true;
  pending_.append(tokenizer_->id_to_bytes(id));
  const size_t complete = pending_.size() - unicode::incomplete_suffix(pending_);
  std::string text = unicode::to_valid(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

}  // namespace unspool
