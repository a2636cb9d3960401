// The tokens of a sequence, prompt and output, as one row without copying them together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace unspool {

struct TokenView {
  std::span<const int32_t> prompt;
  std::span<const int32_t> output;

  int size() const { return static_cast<int>(prompt.size() + output.size()); }
  int32_t at(int position) const {
    const auto p = static_cast<size_t>(position);
    return p < prompt.size() ? prompt[p] : output[p - prompt.size()];
  }
  // Tokens [start, start + count) to `out`.
  void copy(int start, int count, int32_t* out) const {
    const int split = static_cast<int>(prompt.size());
    const int from_prompt = std::clamp(split - start, 0, count);
    std::copy_n(prompt.data() + start, from_prompt, out);
    std::copy_n(output.data() + std::max(start - split, 0), count - from_prompt, out + from_prompt);
  }
};

}  // namespace unspool
