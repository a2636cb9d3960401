// What a model thinks before it answers: where it begins and ends.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output_parser.h"

namespace unspool::chat {

enum class ReasoningName : uint8_t { kQwen3, kDeepSeekR1 };

// A text that begins or ends reasoning, and its id where it is one token.
struct Marker {
  std::string text;
  std::optional<int32_t> id;
};

struct ReasoningMarkers {
  Marker begin;
  Marker end;
  // Ends reasoning as well, and belongs to what follows it.
  std::optional<Marker> implicit_end;
  // Between a conversation's turns: what stands before the last one says nothing about this turn.
  std::vector<int32_t> turn_boundaries;
};

// Immutable; may be used from several threads at once.
class ReasoningParser {
 public:
  static Result<ReasoningParser> create(ReasoningName name, const TokenLookup& token_id);

  // Both are nullopt where they would be null. Markers are found in the text.
  struct Parts {
    std::optional<std::string> reasoning;
    std::optional<std::string> content;
  };
  Parts parse(std::string_view text, bool enable_thinking) const;

  // Whether what follows the prompt is reasoning.
  bool continues(std::span<const int32_t> prompt_token_ids, bool enable_thinking) const;
  int64_t count_tokens(std::span<const int32_t> token_ids, bool enable_thinking) const;

  bool keeps_special_tokens() const { return name_ == ReasoningName::kQwen3; }
  ReasoningName name() const { return name_; }
  const ReasoningMarkers& markers() const { return markers_; }

 private:
  ReasoningParser(ReasoningName name, ReasoningMarkers markers) : name_(name), markers_(std::move(markers)) {}
  ReasoningName name_;
  ReasoningMarkers markers_;
};

// Splits one choice's stream. A marker that is one token is one where its id was generated; the same text spelled out
// by other tokens is none. Its id comes with its text or before it, since text may be held back for stop strings.
class ReasoningStream {
 public:
  ReasoningStream(const ReasoningParser& parser, bool is_open);

  bool is_open() const { return is_open_; }
  int64_t tokens() const { return tokens_; }

  struct Parts {
    std::string reasoning;
    std::string content;
  };
  Parts read(std::string_view text, std::span<const int32_t> token_ids, bool finished);

 private:
  // A marker, and what is known of its places in buffer_ where it is found by its id.
  struct Watched {
    const Marker* marker;
    size_t ids = 0;          // that came, and whose text was not met yet
    size_t spelled_out = 0;  // places that are none
  };
  bool by_text(const Marker& marker) const { return !saw_ids_ || !marker.id; }
  void count_tokens(std::span<const int32_t> token_ids);
  // The tokens whose text begins before `end` in buffer_ are done with.
  void count_until(size_t end, bool are_reasoning);
  void expect(std::span<const int32_t> token_ids);
  // The marker that begins at `at`, or null.
  Watched* marker_at(size_t at);
  // How many bytes at the buffer's end may be the beginning of a marker.
  size_t held() const;

  const ReasoningParser& parser_;
  std::vector<Watched> markers_;
  bool is_open_;
  bool saw_ids_ = false;
  std::string buffer_;
  bool counts_ids_;
  bool ended_by_id_;
  int64_t depth_ = 0;
  // Where no marker of the end is a token: tokens by the place in buffer_ where their text begins.
  std::deque<std::pair<size_t, int64_t>> token_starts_;
  int64_t tokens_ = 0;
};

}  // namespace unspool::chat
