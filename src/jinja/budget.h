// What one rendering may cost. A template comes with the model and the values from a client, so neither is trusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "jinja/template_error.h"

namespace unspool::jinja {

struct Limits {
  // A step is a node of the template evaluated, an item visited, or kBytesPerStep of text made. The largest templates
  // take about 400 steps for a message; a step takes some 50 to 100 ns, so that this is a third of a second, and 10,000
  // messages. It also bounds memory, since whatever is made is paid for.
  int64_t max_steps = 4'000'000;
  // Nested expressions, loops and calls: some 50 calls of a macro within one another. A level takes about 1 KiB of
  // stack, and 6 in a sanitized build.
  int max_depth = 500;
  size_t max_output_bytes = size_t{64} << 20;
};

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), steps_left_(limits.max_steps) {}

  void spend(int64_t steps = 1) {
    steps_left_ -= steps;
    if (steps_left_ < 0) [[unlikely]] {
      fail(TemplateError::Kind::kLimit, "the template takes more steps than are allowed");
    }
  }
  void spend_bytes(size_t bytes) { spend(static_cast<int64_t>(bytes / kBytesPerStep)); }
  void check_output(size_t bytes) const {
    if (bytes > limits_.max_output_bytes) fail(TemplateError::Kind::kLimit, "the template writes more than is allowed");
  }
  int64_t steps_used() const { return limits_.max_steps - steps_left_; }

  // A level of nesting, for as long as it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.max_depth) {
        --budget_.depth_;
        fail(TemplateError::Kind::kLimit, "maximum recursion depth exceeded");
      }
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  // Copying as much is below a step's cost; new memory is not. The 128 MB that all steps buy are several copies of the
  // longest prompt that a model takes.
  static constexpr size_t kBytesPerStep = 32;

  Limits limits_;
  int64_t steps_left_;
  int depth_ = 0;
};

}  // namespace unspool::jinja
