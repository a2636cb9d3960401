// Hand-written scanners for the pre-tokenizer patterns of the common families: one pass, no backtracking.
#pragma once

#include <cstddef>
#include <string_view>

namespace unspool::unicode {

// The end of the match that starts at `at` < text.size(). These patterns match at every character, so the matches
// follow one another without a gap. `text` is valid UTF-8.
using Scanner = size_t (*)(std::string_view text, size_t at);

extern const std::string_view kGpt2Pattern;
extern const std::string_view kLlama3Pattern;
extern const std::string_view kQwen2Pattern;

size_t scan_gpt2(std::string_view text, size_t at);
size_t scan_llama3(std::string_view text, size_t at);
size_t scan_qwen2(std::string_view text, size_t at);

// The scanner for exactly this pattern, or nullptr.
Scanner find_scanner(std::string_view pattern);

}  // namespace unspool::unicode
