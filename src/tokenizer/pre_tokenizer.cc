#include "tokenizer/pre_tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/split_behavior.h"
#include "unicode/categories.h"
#include "unicode/pattern.h"
#include "unicode/scanners.h"
#include "unicode/utf8.h"

namespace unspool {

SplitText::SplitText(std::string_view text) : text_(text) {
  if (!text.empty()) pieces_.push_back({0, text.size()});
}

void SplitText::replace_text(std::string text, std::vector<Piece> pieces) {
  storage_ = std::move(text);
  text_ = storage_;
  pieces_ = std::move(pieces);
}

namespace {

using LoadedPreTokenizer = Result<std::unique_ptr<const PreTokenizer>>;

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<const PreTokenizer>> parts) : parts_(std::move(parts)) {}
  void apply(SplitText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

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
      append_pieces(spans, behavior_, invert_, piece.begin, pieces);
    }
    text.replace_pieces(std::move(pieces));
  }

 private:
  std::unique_ptr<const unicode::Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Digits alone, each by itself or run by run.
class DigitsPreTokenizer final : public PreTokenizer {
 public:
  explicit DigitsPreTokenizer(bool individual_digits) : individual_digits_(individual_digits) {}

  void apply(SplitText& text) const override {
    std::vector<SplitText::Piece> pieces;
    for (const SplitText::Piece& piece : text.pieces()) split(text.text(piece), piece.begin, pieces);
    text.replace_pieces(std::move(pieces));
  }

 private:
  void split(std::string_view text, size_t offset, std::vector<SplitText::Piece>& pieces) const {
    bool previous_digit = false;
    for (size_t at = 0; at < text.size();) {
      const unicode::Decoded character = unicode::decode(text, at);
      const bool digit = unicode::is_numeric(character.code_point);
      if (at == 0 || digit != previous_digit || (digit && individual_digits_)) {
        pieces.push_back({offset + at, offset + at});
      }
      at += character.size_bytes;
      pieces.back().end = offset + at;
      previous_digit = digit;
    }
  }

  bool individual_digits_;
};

// Rewrites text in the byte-level alphabet, after a split by GPT-2's pattern where `use_regex`.
class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}

  void apply(SplitText& text) const override {
    std::string mapped;
    std::vector<SplitText::Piece> pieces;
    const auto append_piece = [&](std::string_view bytes) {
      const size_t begin = mapped.size();
      append_byte_level(mapped, bytes);
      pieces.push_back({begin, mapped.size()});
    };
    std::string prefixed;
    for (const SplitText::Piece& piece : text.pieces()) {
      std::string_view part = text.text(piece);
      if (add_prefix_space_ && part.front() != ' ') {
        prefixed.assign(1, ' ').append(part);
        part = prefixed;
      }
      if (!use_regex_) {
        append_piece(part);
        continue;
      }
      for (size_t at = 0; at < part.size();) {
        const size_t end = unicode::scan_gpt2(part, at);
        append_piece(part.substr(at, end - at));
        at = end;
      }
    }
    text.replace_text(std::move(mapped), std::move(pieces));
  }

 private:
  bool add_prefix_space_;
  bool use_regex_;
};

LoadedPreTokenizer load_sequence(const JsonValue& json) {
  const JsonValue list = json["pretokenizers"];
  if (!list.is_array()) return expected_error("pre_tokenizer Sequence.pretokenizers", "an array", list);
  std::vector<std::unique_ptr<const PreTokenizer>> parts;
  for (const JsonValue& element : list.elements()) {
    UNSPOOL_ASSIGN(auto part, PreTokenizer::load(element));
    if (part == nullptr) return expected_error("pre_tokenizer Sequence.pretokenizers", "objects", element);
    parts.push_back(std::move(part));
  }
  return std::unique_ptr<const PreTokenizer>(std::make_unique<SequencePreTokenizer>(std::move(parts)));
}

LoadedPreTokenizer load_split(const JsonValue& json) {
  UNSPOOL_ASSIGN(const std::string name, string_field("pre_tokenizer Split", json, "behavior"));
  UNSPOOL_ASSIGN(const SplitBehavior behavior, parse_split_behavior(name));
  UNSPOOL_ASSIGN(const bool invert, bool_field("pre_tokenizer Split", json, "invert"));
  std::unique_ptr<const unicode::Pattern> pattern;
  if (const auto regex = json["pattern"]["Regex"].as_string()) {
    auto compiled = unicode::Pattern::regex(std::string(*regex));
    if (!compiled.ok()) return tokenizer_error("pre_tokenizer Split.pattern", compiled.error().message);
    pattern = std::move(compiled).value();
  } else if (const auto literal = json["pattern"]["String"].as_string()) {
    pattern = unicode::Pattern::literal(std::string(*literal));
  } else {
    return expected_error("pre_tokenizer Split.pattern", "an object with Regex or String", json["pattern"]);
  }
  return std::unique_ptr<const PreTokenizer>(std::make_unique<SplitPreTokenizer>(std::move(pattern), behavior, invert));
}

}  // namespace

LoadedPreTokenizer PreTokenizer::load(const JsonValue& json) {
  if (json.is_null()) return std::unique_ptr<const PreTokenizer>();
  UNSPOOL_ASSIGN(const std::string type, type_field("pre_tokenizer", json));
  if (type == "Sequence") return load_sequence(json);
  if (type == "Split") return load_split(json);
  if (type == "Digits") {
    UNSPOOL_ASSIGN(const bool individual, bool_field("pre_tokenizer Digits", json, "individual_digits"));
    return std::unique_ptr<const PreTokenizer>(std::make_unique<DigitsPreTokenizer>(individual));
  }
  if (type == "ByteLevel") {  // trim_offsets concerns offsets alone, which nothing here asks for
    UNSPOOL_ASSIGN(const bool prefix, bool_field("pre_tokenizer ByteLevel", json, "add_prefix_space"));
    UNSPOOL_ASSIGN(const bool regex, bool_field("pre_tokenizer ByteLevel", json, "use_regex", true));
    return std::unique_ptr<const PreTokenizer>(std::make_unique<ByteLevelPreTokenizer>(prefix, regex));
  }
  return tokenizer_error("pre_tokenizer",
                         fmt::format("type {} is not supported (Sequence, Split, Digits and ByteLevel are)", type));
}

}  // namespace unspool
