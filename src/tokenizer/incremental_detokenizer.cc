#include "tokenizer/incremental_detokenizer.h"

#include <algorithm>
#include <utility>

#include "tokenizer/byte_fallback.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

// Of a prompt's end, enough to begin with: most often a word that ends in text of its own is among them.
constexpr size_t kFewTokens = 8;

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
  for (auto id = run_begin.base(); id != window_.end(); ++id) extends_broken_run(*id);
  num_shown_ = window_.size() - run_.size();  // one token a byte
  shown_ = window_text(num_shown_);
}

// Whether the window's text, `text`, ends in what may become another character. U+FFFD itself does not: a model that
// writes nothing else would have all of it decoded anew for every token.
bool IncrementalDetokenizer::ends_incomplete(std::string_view text, bool run_is_broken) const {
  if (!text.ends_with("\ufffd")) return false;
  if (run_is_broken) return true;
  constexpr size_t kLongestCharacter = 4;
  std::string bytes;
  for (auto id = window_.rbegin(); id != window_.rend() && bytes.size() < kLongestCharacter; ++id)
    bytes.insert(0, tokenizer_->id_to_bytes(*id));
  return unicode::incomplete_suffix(bytes) > 0;
}

// Follows the run of byte tokens that `id` may be of; whether it is of one that can only be U+FFFD to its end.
bool IncrementalDetokenizer::extends_broken_run(int32_t id) {
  if (!is_byte_token(id)) {
    run_.clear();
    run_is_broken_ = false;
    return false;
  }
  run_.append(tokenizer_->id_to_bytes(id));
  const unicode::Sequence sequence = unicode::next_sequence(run_);
  run_is_broken_ = run_is_broken_ || sequence.kind == unicode::SequenceKind::kInvalid;
  if (run_is_broken_ || sequence.kind == unicode::SequenceKind::kComplete) run_.clear();
  return run_is_broken_;
}

std::string IncrementalDetokenizer::push_window(int32_t id) {
  const bool was_broken = run_is_broken_;
  if (extends_broken_run(id) && was_broken) {
    window_.push_back(id);  // nothing to be shown before the run ends, however long it is
    return {};
  }
  if (shown_.empty() && !window_.empty()) {
    std::string text = window_text(window_.size());
    if (!ends_incomplete(text, was_broken)) {
      shown_ = std::move(text);
      num_shown_ = window_.size();
    }
  }
  window_.push_back(id);
  const std::string text = window_text(window_.size());
  if (text.size() <= shown_.size() || ends_incomplete(text, run_is_broken_)) return {};
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
