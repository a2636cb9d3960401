// A grammar engine that a test can hold up: "slow:..." spins, "bad:..." is refused, what ends in "hang" never gets a
// mask there, anything else is the one text that may be said, a token a byte.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace unspool {

class FakeMatcher : public GrammarMatcher {
 public:
  FakeMatcher(std::string text, std::vector<int32_t> stops) : text_(std::move(text)), stops_(std::move(stops)) {}

  bool accept(int32_t token_id) override {
    if (at_ < text_.size() ? token_id != text_[at_] : !is_stop(token_id)) return false;
    ++at_;
    return true;
  }
  bool fill_mask(std::span<uint32_t> mask) override {
    while (std::string_view(text_).substr(at_) == "hang" && !hung_released()) {
    }
    std::fill(mask.begin(), mask.end(), 0);
    const auto allow = [&](int32_t id) {  // what the model has no token for cannot be said
      if (static_cast<size_t>(id / 32) < mask.size()) mask[id / 32] |= 1U << (id % 32);
    };
    if (at_ < text_.size()) {
      allow(text_[at_]);
    } else {
      for (const int32_t id : stops_) allow(id);
    }
    return true;
  }
  bool terminated() const override { return at_ > text_.size(); }
  static std::atomic<bool>& hung_released() {
    static std::atomic<bool> released = false;
    return released;
  }

 private:
  bool is_stop(int32_t id) const { return std::find(stops_.begin(), stops_.end(), id) != stops_.end(); }
  std::string text_;
  std::vector<int32_t> stops_;
  size_t at_ = 0;
};

class FakeGrammar : public CompiledGrammar {
 public:
  explicit FakeGrammar(std::string text) : text_(std::move(text)) {}
  size_t size_bytes() const override { return 1000; }
  Result<std::unique_ptr<GrammarMatcher>> matcher(std::span<const int32_t> stops) const override {
    return std::unique_ptr<GrammarMatcher>(
        std::make_unique<FakeMatcher>(text_, std::vector<int32_t>(stops.begin(), stops.end())));
  }

 private:
  std::string text_;
};

class FakeBackend : public GrammarBackend {
 public:
  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) override {
    ++num_compiled;
    while (spec.text.starts_with("slow:") && !released) {
    }
    if (spec.text.starts_with("bad:")) return invalid_argument("no such grammar");
    return std::shared_ptr<const CompiledGrammar>(std::make_shared<FakeGrammar>(spec.text));
  }

  std::atomic<int> num_compiled = 0;
  std::atomic<bool> released = false;
};

}  // namespace unspool
