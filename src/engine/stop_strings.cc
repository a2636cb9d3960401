#include "engine/stop_strings.h"

#include <algorithm>

namespace unspool {

namespace {

bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

// Bytes of the last `count` characters.
size_t tail_bytes(std::string_view text, size_t count) {
  size_t begin = text.size();
  while (count > 0 && begin > 0) {
    if (starts_character(text[--begin])) --count;
  }
  return text.size() - begin;
}

}  // namespace

StopStringMatcher::StopStringMatcher(const std::vector<std::string>& stops, bool include)
    : stops_(stops), include_(include) {
  for (const auto& stop : stops) {
    if (stop.empty()) continue;
    held_characters_ = std::max(held_characters_, count_characters(stop) - 1);
    overlap_bytes_ = std::max(overlap_bytes_, stop.size() - 1);
  }
  if (include) held_characters_ = 0;
}

std::optional<size_t> StopStringMatcher::push(std::string_view text, bool search) {
  const size_t before = window_.size();
  window_ += text;
  if (!search || text.empty()) return std::nullopt;
  std::optional<size_t> winner;
  size_t winner_end = 0;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const std::string& stop = stops_[i];
    if (stop.empty()) continue;
    const size_t from = before > stop.size() - 1 ? before - (stop.size() - 1) : 0;
    const size_t begin = window_.find(stop, from);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (!winner || end < winner_end) {
      winner = i;
      winner_end = end;
    }
  }
  if (winner) {
    window_.resize(include_ ? winner_end : winner_end - stops_[*winner].size());
    matched_ = true;
  }
  return winner;
}

std::string StopStringMatcher::take_ready() {
  const size_t held = matched_ ? 0 : tail_bytes(window_, held_characters_);
  const size_t end = window_.size() - held;
  if (end <= sent_) return {};
  std::string ready = window_.substr(sent_, end - sent_);
  sent_ = end;
  trim();
  return ready;
}

std::string StopStringMatcher::take_rest() {
  std::string rest = sent_ < window_.size() ? window_.substr(sent_) : std::string();
  sent_ = window_.size();
  return rest;
}

void StopStringMatcher::trim() {
  // What has gone out is kept as far as a match may begin in it; moving the rest down is worth it now and then only.
  if (window_.size() < 256 + 2 * overlap_bytes_) return;
  const size_t dropped = std::min(sent_, window_.size() - overlap_bytes_);
  window_.erase(0, dropped);
  sent_ -= dropped;
}

}  // namespace unspool
