#include "tokenizer/pre_tokenizer.h"

#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/splits.h"
#include "unicode/scanners.h"

namespace unspool {

SplitText::SplitText(std::string_view text, bool begins_original) : text_(text) {
  if (!text.empty()) pieces_.push_back({0, text.size(), begins_original});
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

// Rewrites text in the byte-level alphabet, after a split by GPT-2's pattern where `use_regex`.
class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}

  void apply(SplitText& text) const override {
    std::string mapped;
    std::vector<SplitText::Piece> pieces;
    const auto append_piece = [&](std::string_view bytes, bool begins_original) {
      const size_t begin = mapped.size();
      append_byte_level(mapped, bytes);
      pieces.push_back({begin, mapped.size(), begins_original});
    };
    std::string prefixed;
    for (const SplitText::Piece& piece : text.pieces()) {
      std::string_view part = text.text(piece);
      if (add_prefix_space_ && part.front() != ' ') {
        prefixed.assign(1, ' ').append(part);
        part = prefixed;
      }
      if (!use_regex_) {
        append_piece(part, piece.begins_original);
        continue;
      }
      for (size_t at = 0; at < part.size();) {
        const size_t end = unicode::scan_gpt2(part, at);
        append_piece(part.substr(at, end - at), piece.begins_original && at == 0);
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

LoadedPreTokenizer load_byte_level(const JsonValue& json) {
  // trim_offsets concerns offsets alone, which nothing here asks for.
  UNSPOOL_ASSIGN(const bool prefix, bool_field("pre_tokenizer ByteLevel", json, "add_prefix_space"));
  UNSPOOL_ASSIGN(const bool regex, bool_field("pre_tokenizer ByteLevel", json, "use_regex", true));
  return std::unique_ptr<const PreTokenizer>(std::make_unique<ByteLevelPreTokenizer>(prefix, regex));
}

}  // namespace

LoadedPreTokenizer PreTokenizer::load(const JsonValue& json) {
  if (json.is_null()) return std::unique_ptr<const PreTokenizer>();
  UNSPOOL_ASSIGN(const std::string type, type_field("pre_tokenizer", json));
  if (type == "Sequence") return load_sequence(json);
  if (type == "ByteLevel") return load_byte_level(json);
  if (type == "Metaspace") return load_metaspace(json);
  if (type == "Split") return load_split(json);
  return load_character_split(type, json);
}

}  // namespace unspool
