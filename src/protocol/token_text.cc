#include "protocol/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "protocol/python_text.h"

namespace unspool {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string text_of(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  return python::decode_utf8(tokenizer.decode(ids, false));
}

}  // namespace

std::string token_id_placeholder(int32_t id) {
  return fmt::format("token_id:{}", id);
}

TokenText::TokenText(std::shared_ptr<const Tokenizer> tokenizer, bool as_ids)
    : tokenizer_(std::move(tokenizer)), as_ids_(as_ids || tokenizer_ == nullptr) {}

std::string TokenText::decoded(int32_t id, std::span<const int32_t> context) const {
  std::string text = python::decode_utf8(tokenizer_->token_text(id));
  return text.ends_with(kReplacement) ? completed(id, context) : text;
}

std::string TokenText::show(int32_t id, std::span<const int32_t> context) const {
  return as_ids_ ? token_id_placeholder(id) : decoded(id, context);
}

std::string TokenText::show_alone(int32_t id) const {
  return as_ids_ ? token_id_placeholder(id) : text_of(*tokenizer_, std::span(&id, 1));
}

// As the reference does it: the shortest context that makes the end whole; of the decoded text, the context's own
// characters are taken off, but not those parts of it that showed nothing.
std::string TokenText::completed(int32_t id, std::span<const int32_t> context) const {
  std::vector<int32_t> ids;
  for (size_t count = 1; count <= std::min<size_t>(context.size(), 4); ++count) {
    const auto tail = context.last(count);
    ids.assign(tail.begin(), tail.end());
    ids.push_back(id);
    const std::string full = text_of(*tokenizer_, ids);
    if (full.ends_with(kReplacement)) continue;
    size_t clean = tail.size();
    while (clean > 0 && text_of(*tokenizer_, tail.subspan(clean - 1, 1)).ends_with(kReplacement)) --clean;
    const std::string prefix = text_of(*tokenizer_, tail.first(clean));
    const auto [differs, _] = std::mismatch(full.begin(), full.end(), prefix.begin(), prefix.end());
    size_t common = differs - full.begin();
    // Not within a character.
    while (common > 0 && common < full.size() && (full[common] & 0xC0) == 0x80) --common;
    return full.substr(common);
  }
  return {};
}

void TokenContext::push(int32_t id) {
  if (size_ == kSize) {
    std::move(ids_ + 1, ids_ + kSize, ids_);
    --size_;
  }
  ids_[size_++] = id;
}

}  // namespace unspool
