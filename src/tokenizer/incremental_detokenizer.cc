#include "tokenizer/incremental_detokenizer.h"

#include <algorithm>
#include <utility>

#include "tokenizer/byte_fallback.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

// Of a prompt's end, enough to begin with: most often a word that ends in text of its own is among them.
constexpr size_t kFewTokens = 8;
// What is held back where it ends a text: bytes that may become a character, and the character itself.
constexpr std::string_view kReplacement = "\ufffd";

}  // namespace

IncrementalDetokenizer::IncrementalDetokenizer(std::shared_ptr<const Tokenizer> tokenizer,
                                               std::span<const int32_t> prompt_ids, bool skip_special_tokens,
                                               bool /*spaces_between_special_tokens*/)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {
  if (tokenizer_->joins_bytes()) {
    prime_bytes(prompt_ids);
  } else {
    prime_window(prompt_ids);
  }
}

bool IncrementalDetokenizer::emits(int32_t id) const {
  return !tokenizer_->id_to_piece(id).empty() && !(skip_special_tokens_ && tokenizer_->is_special(id));
}

std::string IncrementalDetokenizer::push(int32_t id) {
  if (!emits(id)) return {};
  return tokenizer_->joins_bytes() ? push_bytes(id) : push_window(id);
}

void IncrementalDetokenizer::prime_bytes(std::span<const int32_t> prompt_ids) {
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

std::string IncrementalDetokenizer::push_bytes(int32_t id) {
  if (has_text_before_) pending_.append(tokenizer_->separator());
  has_text_before_ = true;
  pending_.append(tokenizer_->id_to_bytes(id));
  const size_t complete = pending_.size() - unicode::incomplete_suffix(pending_);
  std::string text = unicode::to_valid(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string IncrementalDetokenizer::window_text(size_t count) const {
  return tokenizer_->decode(std::span(window_).first(count), skip_special_tokens_);
}

bool IncrementalDetokenizer::is_byte_token(int32_t id) const {
  return tokenizer_->id_to_bytes(id).size() == 1 && fallback_byte(tokenizer_->id_to_piece(id)).has_value();
}

// The shortest end of the prompt that has text of its own: then the decoder has taken off the space in front, and what
// follows is decoded as it would be behind the whole prompt. Not from within a run of byte tokens, which is decoded as
// one.
void IncrementalDetokenizer::prime_window(std::span<const int32_t> prompt_ids) {
  size_t wanted = kFewTokens;
  for (auto id = prompt_ids.rbegin(); id != prompt_ids.rend(); ++id) {
    if (!emits(*id)) continue;
    if (window_.size() >= wanted && !is_byte_token(window_.back())) {
      std::reverse(window_.begin(), window_.end());
      const bool enough = !window_text(window_.size()).empty();
      std::reverse(window_.begin(), window_.end());
      if (enough) break;
      wanted *= 2;
    }
    window_.push_back(*id);
  }
  std::reverse(window_.begin(), window_.end());
  const auto run_begin =
      std::find_if_not(window_.rbegin(), window_.rend(), [&](int32_t id) { return is_byte_token(id); });
  for (auto id = run_begin.base(); id != window_.end(); ++id) is_held_back_ = ends_in_replacement(*id);
  num_shown_ = window_.size() - run_.size();  // one token a byte
  shown_ = window_text(num_shown_);
}

// Follows the run of byte tokens that `id` may be of; whether the text is known to end in U+FFFD behind it: within a
// character, in a run that is broken and all U+FFFD to its end, or with U+FFFD itself.
bool IncrementalDetokenizer::ends_in_replacement(int32_t id) {
  const std::string_view bytes = tokenizer_->id_to_bytes(id);
  if (!is_byte_token(id)) {
    run_.clear();
    run_is_broken_ = false;
    return bytes.ends_with(kReplacement);
  }
  run_.append(bytes);
  const unicode::Sequence sequence = unicode::next_sequence(run_);
  run_is_broken_ = run_is_broken_ || sequence.kind == unicode::SequenceKind::kInvalid;
  const bool ends_so = run_is_broken_ || sequence.kind == unicode::SequenceKind::kIncomplete || run_ == kReplacement;
  if (run_is_broken_ || sequence.kind == unicode::SequenceKind::kComplete) run_.clear();
  return ends_so;
}

std::string IncrementalDetokenizer::push_window(int32_t id) {
  const bool was_held_back = std::exchange(is_held_back_, ends_in_replacement(id));
  if (shown_.empty() && !window_.empty() && !was_held_back) {
    std::string text = window_text(window_.size());
    if (!text.ends_with(kReplacement)) {
      shown_ = std::move(text);
      num_shown_ = window_.size();
    }
  }
  window_.push_back(id);
  if (is_held_back_) return {};  // however many there are: each would decode all of them anew
  const std::string text = window_text(window_.size());
  if (text.size() <= shown_.size() || text.ends_with(kReplacement)) return {};
  if (!text.starts_with(shown_)) {
    window_.clear();
    num_shown_ = 0;
    shown_.clear();
    return push_window(id);
  }
  std::string added = text.substr(shown_.size());
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(num_shown_));
  num_shown_ = window_.size();
  shown_ = window_text(num_shown_);
  return added;
}

}  // namespace unspool
