#include "chat/reasoning.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace unspool::chat {
namespace {

Marker look_up(std::string_view text, const TokenLookup& token_id) {
  return {std::string(text), token_id(text)};
}

std::string without(std::string_view text, std::string_view what) {
  std::string out;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what)) {
    out += text.substr(0, at);
    text.remove_prefix(at + what.size());
  }
  out += text;
  return out;
}

std::optional<std::string> nonempty(std::string text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(std::move(text));
}

// How many bytes at the end of `text` begin `marker` without completing it.
size_t overlap(std::string_view text, std::string_view marker) {
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.ends_with(marker.substr(0, size))) return size;
  }
  return 0;
}

// The reference counts DeepSeek's reasoning tokens between markers that were generated, the first included: where the
// prompt ends with <think>, there are none.
int64_t count_inside(const ReasoningMarkers& markers, std::span<const int32_t> token_ids, int64_t& depth) {
  int64_t tokens = 0;
  for (const int32_t id : token_ids) {
    if (id == markers.begin.id) {
      ++depth;
    } else if (id == markers.end.id) {
      depth = std::max<int64_t>(depth - 1, 0);
    } else if (depth > 0) {
      ++tokens;
    }
  }
  return tokens;
}

// Qwen's: all before the end.
int64_t count_before_end(const ReasoningMarkers& markers, std::span<const int32_t> token_ids, bool& ended) {
  int64_t tokens = 0;
  for (const int32_t id : token_ids) {
    ended = ended || id == markers.end.id || id == markers.implicit_end->id;
    if (ended) break;
    if (id != markers.begin.id) ++tokens;
  }
  return tokens;
}

}  // namespace

Result<ReasoningParser> ReasoningParser::create(ReasoningName name, const TokenLookup& token_id) {
  ReasoningMarkers markers{.begin = look_up("<think>", token_id),
                           .end = look_up("</think>", token_id),
                           .implicit_end = {},
                           .turn_boundaries = {}};
  if (name == ReasoningName::kQwen3) {
    markers.implicit_end = look_up("<tool_call>", token_id);
    for (const std::string_view text : {"<|im_start|>", "<|im_end|>"}) {
      if (const auto id = token_id(text)) markers.turn_boundaries.push_back(*id);
    }
  } else if (!markers.begin.id || !markers.end.id) {
    return invalid_argument("reasoning parser deepseek_r1: the tokenizer has no tokens <think> and </think>");
  }
  return ReasoningParser(name, std::move(markers));
}

ReasoningParser::Parts ReasoningParser::parse(std::string_view text, bool enable_thinking) const {
  if (name_ == ReasoningName::kDeepSeekR1) {
    if (const size_t begin = text.find(markers_.begin.text); begin != std::string_view::npos) {
      text.remove_prefix(begin + markers_.begin.text.size());
    }
    const size_t end = text.find(markers_.end.text);
    if (end == std::string_view::npos) return {std::string(text), std::nullopt};
    return {std::string(text.substr(0, end)), nonempty(std::string(text.substr(end + markers_.end.text.size())))};
  }
  if (!enable_thinking) return {std::nullopt, std::string(text)};
  const size_t end = std::min(text.find(markers_.end.text), text.find(markers_.implicit_end->text));
  const std::string_view content = end == std::string_view::npos ? std::string_view() : text.substr(end);
  return {nonempty(without(text.substr(0, end), markers_.begin.text)), nonempty(without(content, markers_.end.text))};
}

bool ReasoningParser::continues(std::span<const int32_t> prompt_token_ids, bool enable_thinking) const {
  if (name_ == ReasoningName::kQwen3 && !enable_thinking) return false;
  for (size_t i = prompt_token_ids.size(); i-- > 0;) {
    const int32_t id = prompt_token_ids[i];
    if (id == markers_.begin.id) return true;
    if (id == markers_.end.id || (markers_.end.id && markers_.implicit_end && id == markers_.implicit_end->id)) {
      return false;
    }
    if (std::ranges::find(markers_.turn_boundaries, id) != markers_.turn_boundaries.end()) break;
  }
  return true;
}

int64_t ReasoningParser::count_tokens(std::span<const int32_t> token_ids, bool enable_thinking) const {
  int64_t depth = 0;
  if (name_ == ReasoningName::kDeepSeekR1) return count_inside(markers_, token_ids, depth);
  bool ended = !enable_thinking;
  return count_before_end(markers_, token_ids, ended);
}

ReasoningStream::ReasoningStream(const ReasoningParser& parser, bool is_open)
    : parser_(parser), is_open_(is_open), ended_by_id_(!is_open) {
  const ReasoningMarkers& markers = parser.markers();
  markers_ = {{&markers.begin}, {&markers.end}};
  if (markers.implicit_end) markers_.push_back({&*markers.implicit_end});
  counts_ids_ = markers.end.id.has_value();
}

void ReasoningStream::count_tokens(std::span<const int32_t> token_ids) {
  const ReasoningMarkers& markers = parser_.markers();
  if (parser_.name() == ReasoningName::kDeepSeekR1) {
    tokens_ += count_inside(markers, token_ids, depth_);
  } else if (counts_ids_) {
    if (!ended_by_id_) tokens_ += count_before_end(markers, token_ids, ended_by_id_);
  } else if (is_open_ && !token_ids.empty()) {
    token_starts_.emplace_back(buffer_.size(), static_cast<int64_t>(token_ids.size()));
  }
}

void ReasoningStream::count_until(size_t end, bool are_reasoning) {
  while (!token_starts_.empty() && token_starts_.front().first < end) {
    if (are_reasoning) tokens_ += token_starts_.front().second;
    token_starts_.pop_front();
  }
}

void ReasoningStream::expect(std::span<const int32_t> token_ids) {
  saw_ids_ = saw_ids_ || !token_ids.empty();
  for (Watched& watched : markers_) {
    if (by_text(*watched.marker)) continue;
    watched.ids += static_cast<size_t>(std::ranges::count(token_ids, *watched.marker->id));
    const size_t places = count_of(buffer_, watched.marker->text);
    // Of more places than ids the last ones are meant: what was spelled out came before.
    watched.spelled_out = places - std::min(places, watched.ids);
  }
}

ReasoningStream::Watched* ReasoningStream::marker_at(size_t at) {
  for (Watched& watched : markers_) {
    if (buffer_.compare(at, watched.marker->text.size(), watched.marker->text) != 0) continue;
    if (by_text(*watched.marker)) return &watched;
    if (watched.spelled_out == 0 && watched.ids > 0) {
      --watched.ids;
      return &watched;
    }
    watched.spelled_out -= std::min<size_t>(watched.spelled_out, 1);
  }
  return nullptr;
}

size_t ReasoningStream::held() const {
  size_t bytes = 0;
  for (const Watched& watched : markers_) {
    if (by_text(*watched.marker) || watched.ids > 0) bytes = std::max(bytes, overlap(buffer_, watched.marker->text));
  }
  return bytes;
}

ReasoningStream::Parts ReasoningStream::read(std::string_view text, std::span<const int32_t> token_ids, bool finished) {
  Parts parts;
  count_tokens(token_ids);
  if (!is_open_) {
    parts.content = text;
    return parts;
  }
  buffer_ += text;
  expect(token_ids);
  const ReasoningMarkers& markers = parser_.markers();
  size_t released = 0;
  for (size_t at = buffer_.find('<'); at != std::string::npos; at = buffer_.find('<', at)) {
    const Watched* const found = marker_at(at);
    if (found == nullptr) {
      ++at;
      continue;
    }
    parts.reasoning.append(buffer_, released, at - released);
    count_until(at, true);
    const size_t end = at + found->marker->text.size();
    if (found->marker != &markers.begin) {
      is_open_ = false;
      parts.content = buffer_.substr(found->marker == &markers.end ? end : at);
      return parts;
    }
    count_until(end, false);
    released = at = end;
  }
  const size_t ready = std::max(released, buffer_.size() - (finished ? 0 : held()));
  parts.reasoning.append(buffer_, released, ready - released);
  count_until(finished ? std::string::npos : ready, true);
  for (auto& [start, tokens] : token_starts_) start -= ready;
  buffer_.erase(0, ready);
  return parts;
}

}  // namespace unspool::chat
