#include "unicode/utf8.h"

#include <algorithm>

namespace unspool::unicode {

void append(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

Sequence next_sequence(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {SequenceKind::kComplete, 1};
  if (lead < 0xC2 || lead > 0xF4) return {SequenceKind::kInvalid, 1};
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range shuts out overlong forms, surrogates and what lies above U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < size; ++i) {
    if (i == bytes.size()) return {SequenceKind::kIncomplete, i};
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF)) return {SequenceKind::kInvalid, i};
  }
  return {SequenceKind::kComplete, size};
}

bool is_valid(std::string_view bytes) {
  while (!bytes.empty()) {
    const Sequence sequence = next_sequence(bytes);
    if (sequence.kind != SequenceKind::kComplete) return false;
    bytes.remove_prefix(sequence.size_bytes);
  }
  return true;
}

std::string to_valid(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Sequence sequence = next_sequence(bytes);
    if (sequence.kind == SequenceKind::kComplete) {
      text.append(bytes.substr(0, sequence.size_bytes));
    } else {
      append(text, kReplacement);
    }
    bytes.remove_prefix(sequence.size_bytes);
  }
  return text;
}

size_t incomplete_suffix(std::string_view bytes) {
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    const std::string_view tail = bytes.substr(bytes.size() - back);
    if ((static_cast<unsigned char>(tail[0]) & 0xC0) == 0x80) continue;  // its lead byte lies further back
    const Sequence sequence = next_sequence(tail);
    return sequence.kind == SequenceKind::kIncomplete && sequence.size_bytes == back ? back : 0;
  }
  return 0;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace unspool::unicode
