#include "tokenizer/splits.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "tokenizer/json_fields.h"
#include "tokenizer/script_split.h"
#include "tokenizer/split_behavior.h"
#include "tokenizer/text_pattern.h"
#include "unicode/categories.h"
#include "unicode/pattern.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

using LoadedPreTokenizer = Result<std::unique_ptr<const PreTokenizer>>;

class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(std::unique_ptr<const unicode::Pattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(SplitText& text) const override {
    std::vector<SplitText::Piece> pieces;
    std::vector<unicode::Span> spans;
    for (const SplitText::Piece& piece : text.pieces()) {
      spans.clear();
      pattern_->find_matches(text.text(piece), spans);
      append_pieces(spans, behavior_, invert_, piece, pieces);
    }
    text.replace_pieces(std::move(pieces));
  }

 private:
  std::unique_ptr<const unicode::Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Every character that `IsMatch` takes is a match by itself.
template <class IsMatch>
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(IsMatch is_match, SplitBehavior behavior) : is_match_(is_match), behavior_(behavior) {}

  void apply(SplitText& text) const override {
    std::vector<SplitText::Piece> pieces;
    std::vector<unicode::Span> spans;
    for (const SplitText::Piece& piece : text.pieces()) {
      spans.clear();
      find(text.text(piece), spans);
      append_pieces(spans, behavior_, false, piece, pieces);
    }
    text.replace_pieces(std::move(pieces));
  }

 private:
  void find(std::string_view text, std::vector<unicode::Span>& spans) const {
    size_t covered = 0;
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      const unicode::Decoded character = unicode::decode(text, at);
      end = at + character.size_bytes;
      if (!is_match_(character.code_point)) continue;
      if (covered < at) spans.push_back({covered, at, false});
      spans.push_back({at, end, true});
      covered = end;
    }
    if (covered < text.size()) spans.push_back({covered, text.size(), false});
  }

  IsMatch is_match_;
  SplitBehavior behavior_;
};

template <class IsMatch>
std::unique_ptr<const PreTokenizer> character_split(IsMatch is_match, SplitBehavior behavior) {
  return std::make_unique<CharacterSplit<IsMatch>>(is_match, behavior);
}

// Runs of word characters, and runs of what is neither that nor white space: \w+|[^\w\s]+
class WordSplit final : public PreTokenizer {
 public:
  void apply(SplitText& text) const override {
    std::vector<SplitText::Piece> pieces;
    for (const SplitText::Piece& piece : text.pieces()) split(text.text(piece), piece, pieces);
    text.replace_pieces(std::move(pieces));
  }

 private:
  enum class Kind { kSpace, kWord, kOther };
  static Kind kind_of(char32_t c) {
    if (unicode::is_word(c)) return Kind::kWord;
    return unicode::is_space(c) ? Kind::kSpace : Kind::kOther;
  }

  static void split(std::string_view text, const SplitText::Piece& whole, std::vector<SplitText::Piece>& pieces) {
    Kind before = Kind::kSpace;
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      const unicode::Decoded character = unicode::decode(text, at);
      end = at + character.size_bytes;
      const Kind kind = kind_of(character.code_point);
      if (kind != Kind::kSpace) {
        if (kind != before) pieces.push_back({whole.begin + at, 0, whole.begins_original && at == 0});
        pieces.back().end = whole.begin + end;
      }
      before = kind;
    }
  }
};

// Cuts at white space, then around punctuation.
class BertPreTokenizer final : public PreTokenizer {
 public:
  void apply(SplitText& text) const override {
    spaces_->apply(text);
    punctuation_->apply(text);
  }

 private:
  std::unique_ptr<const PreTokenizer> spaces_ = character_split(unicode::is_space, SplitBehavior::kRemoved);
  std::unique_ptr<const PreTokenizer> punctuation_ = character_split(unicode::is_punctuation, SplitBehavior::kIsolated);
};

LoadedPreTokenizer load_digits(const JsonValue& json) {
  UNSPOOL_ASSIGN(const bool individual, bool_field("pre_tokenizer Digits", json, "individual_digits"));
  return character_split(unicode::is_numeric, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

LoadedPreTokenizer load_punctuation(const JsonValue& json) {
  SplitBehavior behavior = SplitBehavior::kIsolated;
  if (!json["behavior"].is_null()) {
    UNSPOOL_ASSIGN(const std::string name, string_field("pre_tokenizer Punctuation", json, "behavior"));
    UNSPOOL_ASSIGN(behavior, parse_split_behavior("pre_tokenizer Punctuation", name));
  }
  return character_split(unicode::is_punctuation, behavior);
}

LoadedPreTokenizer load_char_delimiter(const JsonValue& json) {
  UNSPOOL_ASSIGN(const char32_t delimiter, character_field("pre_tokenizer CharDelimiterSplit", json, "delimiter"));
  return character_split([delimiter](char32_t c) { return c == delimiter; }, SplitBehavior::kRemoved);
}

}  // namespace

LoadedPreTokenizer load_split(const JsonValue& json) {
  constexpr std::string_view kPart = "pre_tokenizer Split";
  UNSPOOL_ASSIGN(const std::string name, string_field(kPart, json, "behavior"));
  UNSPOOL_ASSIGN(const SplitBehavior behavior, parse_split_behavior(kPart, name));
  UNSPOOL_ASSIGN(const bool invert, bool_field(kPart, json, "invert"));
  UNSPOOL_ASSIGN(auto pattern, load_pattern(kPart, json["pattern"]));
  return std::unique_ptr<const PreTokenizer>(std::make_unique<SplitPreTokenizer>(std::move(pattern), behavior, invert));
}

LoadedPreTokenizer load_character_split(const std::string& type, const JsonValue& json) {
  if (type == "Digits") return load_digits(json);
  if (type == "Punctuation") return load_punctuation(json);
  if (type == "CharDelimiterSplit") return load_char_delimiter(json);
  if (type == "WhitespaceSplit") return character_split(unicode::is_space, SplitBehavior::kRemoved);
  if (type == "Whitespace") return std::unique_ptr<const PreTokenizer>(std::make_unique<WordSplit>());
  if (type == "BertPreTokenizer") return std::unique_ptr<const PreTokenizer>(std::make_unique<BertPreTokenizer>());
  if (type == "UnicodeScripts") return make_script_split();
  return tokenizer_error("pre_tokenizer", fmt::format("type {} is not supported", type));
}

}  // namespace unspool
