#include "tokenizer/metaspace.h"

#include <utility>
#include <vector>

#include "tokenizer/json_fields.h"
#include "tokenizer/split_behavior.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const Metaspace& options)
      : options_(options), pattern_(unicode::Pattern::literal(text_of(options.replacement))) {
    unicode::append(replacement_, options.replacement);
  }

  void apply(SplitText& text) const override {
    std::string rewritten;
    std::vector<SplitText::Piece> pieces;
    for (const SplitText::Piece& piece : text.pieces()) {
      const size_t begin = rewritten.size();
      append(text.text(piece), piece.begins_original, rewritten);
      pieces.push_back({begin, rewritten.size(), piece.begins_original});
    }
    text.replace_text(std::move(rewritten), std::move(pieces));
    if (options_.split) split(text);
  }

 private:
  static std::string text_of(char32_t c) {
    std::string text;
    unicode::append(text, c);
    return text;
  }

  void append(std::string_view piece, bool begins_original, std::string& out) const {
    const bool marked = piece.starts_with(' ') || piece.starts_with(replacement_);
    const bool wanted = options_.prepend == Metaspace::Prepend::kAlways ||
                        (options_.prepend == Metaspace::Prepend::kFirst && begins_original);
    if (wanted && !marked) out.append(replacement_);
    for (const char c : piece) {
      if (c == ' ') {
        out.append(replacement_);
      } else {
        out.push_back(c);
      }
    }
  }

  void split(SplitText& text) const {
    std::vector<SplitText::Piece> pieces;
    std::vector<unicode::Span> spans;
    for (const SplitText::Piece& piece : text.pieces()) {
      spans.clear();
      pattern_->find_matches(text.text(piece), spans);
      append_pieces(spans, SplitBehavior::kMergedWithNext, false, piece, pieces);
    }
    text.replace_pieces(std::move(pieces));
  }

  Metaspace options_;
  std::string replacement_;
  std::unique_ptr<const unicode::Pattern> pattern_;
};

Result<Metaspace::Prepend> parse_prepend(std::string_view part, const JsonValue& json) {
  const JsonValue scheme = json["prepend_scheme"];
  if (scheme.is_null()) return Metaspace::Prepend::kAlways;
  if (scheme.as_string() == "always") return Metaspace::Prepend::kAlways;
  if (scheme.as_string() == "first") return Metaspace::Prepend::kFirst;
  if (scheme.as_string() == "never") return Metaspace::Prepend::kNever;
  return expected_error(std::string(part) + ".prepend_scheme", "always, first or never", scheme);
}

}  // namespace

Result<Metaspace> Metaspace::load(std::string_view part, const JsonValue& json) {
  Metaspace out;
  UNSPOOL_ASSIGN(out.replacement, character_field(part, json, "replacement"));
  UNSPOOL_ASSIGN(out.prepend, parse_prepend(part, json));
  UNSPOOL_ASSIGN(out.split, bool_field(part, json, "split", true));
  UNSPOOL_ASSIGN(const bool prefix, bool_field(part, json, "add_prefix_space", true));
  if (!prefix && out.prepend != Prepend::kNever) {
    // Before there were schemes this field alone told; with a scheme that says otherwise the file contradicts itself.
    if (!json["prepend_scheme"].is_null()) {
      return tokenizer_error(part, "add_prefix_space does not match prepend_scheme");
    }
    out.prepend = Prepend::kNever;
  }
  return out;
}

Result<std::unique_ptr<const PreTokenizer>> load_metaspace(const JsonValue& json) {
  UNSPOOL_ASSIGN(const Metaspace options, Metaspace::load("pre_tokenizer Metaspace", json));
  return std::unique_ptr<const PreTokenizer>(std::make_unique<MetaspacePreTokenizer>(options));
}

}  // namespace unspool
