#include "unicode/scanners.h"

#include <cstdint>

#include "unicode/categories.h"
#include "unicode/utf8.h"

namespace unspool::unicode {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kLlama3Pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                                        R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwen2Pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

struct Character {
  char32_t code_point = 0;
  size_t end = 0;
  uint16_t properties = 0;
  bool exists = false;

  bool is(uint16_t wanted) const { return (properties & wanted) != 0; }
  bool is_newline() const { return code_point == '\n' || code_point == '\r'; }
  // [^\s\p{L}\p{N}]
  bool is_other() const { return exists && !is(kSpace | kLetter | kNumber); }
};

Character character_at(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  const Decoded decoded = decode(text, at);
  return {decoded.code_point, at + decoded.size_bytes, properties(decoded.code_point), true};
}

// The end of the longest run of characters from `at` on for which `belongs` holds.
template <class Belongs>
size_t run_end(std::string_view text, size_t at, Belongs belongs) {
  for (Character c = character_at(text, at); c.exists && belongs(c); c = character_at(text, at)) at = c.end;
  return at;
}

size_t letters_end(std::string_view text, size_t at) {
  return run_end(text, at, [](const Character& c) { return c.is(kLetter); });
}

// 's|'t|'re|'ve|'m|'ll|'d at `at`; its end, or `at` where there is none.
size_t contraction_end(std::string_view text, size_t at, bool any_case) {
  if (text[at] != '\'' || at + 1 >= text.size()) return at;
  const auto lower = [&](size_t i) -> char {
    if (i >= text.size()) return 0;
    return any_case && text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] + ('a' - 'A')) : text[i];
  };
  const char first = lower(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' || first == 'v') && lower(at + 2) == 'e') return at + 3;
  if (first == 'l' && lower(at + 2) == 'l') return at + 3;
  // Case folding takes U+017F, the long s, for an s.
  if (any_case && text.substr(at + 1, 2) == "\xC5\xBF") return at + 3;
  return at;
}

// \s+(?!\S)|\s+ at a space: a run of spaces, less its last character where something else follows a run of two or more.
size_t spaces_end(std::string_view text, size_t at) {
  size_t last = at;
  size_t end = at;
  for (Character c = character_at(text, at); c.is(kSpace); c = character_at(text, end)) {
    last = end;
    end = c.end;
  }
  return end < text.size() && last > at ? last : end;
}

// \s*[\r\n]+ at a space: up to the last newline of the run of spaces; `at` where it has none.
size_t newlines_end(std::string_view text, size_t at) {
  size_t after_newline = at;
  size_t end = at;
  for (Character c = character_at(text, at); c.is(kSpace); c = character_at(text, end)) {
    end = c.end;
    if (c.is_newline()) after_newline = end;
  }
  return after_newline;
}

// Llama-3's and Qwen2's patterns differ in how many digits make a piece.
template <int kMaxDigits>
size_t scan_modern(std::string_view text, size_t at) {
  const Character first = character_at(text, at);
  if (const size_t end = contraction_end(text, at, true); end != at) return end;
  if (first.is(kLetter)) return letters_end(text, first.end);
  if (first.is(kNumber)) {
    size_t end = first.end;
    for (int digits = 1; digits < kMaxDigits; ++digits) {
      const Character next = character_at(text, end);
      if (!next.is(kNumber)) break;
      end = next.end;
    }
    return end;
  }
  const Character second = character_at(text, first.end);
  if (!first.is_newline() && second.is(kLetter)) return letters_end(text, second.end);
  if (first.is_other() || (first.code_point == ' ' && second.is_other())) {
    const size_t end = run_end(text, first.end, [](const Character& c) { return c.is_other(); });
    return run_end(text, end, [](const Character& c) { return c.is_newline(); });
  }
  if (const size_t end = newlines_end(text, at); end != at) return end;
  return spaces_end(text, at);
}

}  // namespace

size_t scan_gpt2(std::string_view text, size_t at) {
  if (const size_t end = contraction_end(text, at, false); end != at) return end;
  Character first = character_at(text, at);
  if (first.code_point == ' ') {
    const Character second = character_at(text, first.end);
    if (second.exists && !second.is(kSpace)) first = second;
  }
  if (first.is(kSpace)) return spaces_end(text, at);
  if (first.is(kLetter)) return letters_end(text, first.end);
  if (first.is(kNumber)) return run_end(text, first.end, [](const Character& c) { return c.is(kNumber); });
  return run_end(text, first.end, [](const Character& c) { return c.is_other(); });
}

size_t scan_llama3(std::string_view text, size_t at) {
  return scan_modern<3>(text, at);
}
size_t scan_qwen2(std::string_view text, size_t at) {
  return scan_modern<1>(text, at);
}

Scanner find_scanner(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return scan_gpt2;
  if (pattern == kLlama3Pattern) return scan_llama3;
  if (pattern == kQwen2Pattern) return scan_qwen2;
  return nullptr;
}

}  // namespace unspool::unicode
