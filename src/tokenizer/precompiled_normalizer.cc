#include "tokenizer/precompiled_normalizer.h"

#include <utility>

#include "base/base64.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/precompiled_charsmap.h"
#include "unicode/graphemes.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

// Graphemes of more bytes are looked up character by character only.
constexpr size_t kMaxGraphemeBytes = 5;

class PrecompiledPart final : public NormalizerPart {
 public:
  explicit PrecompiledPart(PrecompiledCharsmap charsmap) : charsmap_(std::move(charsmap)) {}

  void apply(NormalizedText& text) const override {
    std::string out;
    out.reserve(text.text.size());
    const std::string_view all = text.text;
    for (size_t at = 0, end = 0; at < all.size(); at = end) {
      end = unicode::grapheme_end(all, at);
      append_grapheme(all.substr(at, end - at), out);
    }
    text.text = std::move(out);
  }

 private:
  // A short grapheme that begins with a rule's text becomes what that one becomes, whatever else it holds: so does the
  // reference.
  void append_grapheme(std::string_view grapheme, std::string& out) const {
    if (grapheme.size() <= kMaxGraphemeBytes) {
      if (const auto found = charsmap_.find(grapheme)) {
        out.append(*found);
        return;
      }
    }
    for (size_t at = 0, size = 0; at < grapheme.size(); at += size) {
      size = unicode::decode(grapheme, at).size_bytes;
      const std::string_view character = grapheme.substr(at, size);
      out.append(charsmap_.find(character).value_or(character));
    }
  }

  PrecompiledCharsmap charsmap_;
};

}  // namespace

Result<std::unique_ptr<const NormalizerPart>> load_precompiled_normalizer(const JsonValue& json) {
  constexpr std::string_view kPart = "normalizer Precompiled";
  UNSPOOL_ASSIGN(const std::string text, string_field(kPart, json, "precompiled_charsmap"));
  const auto blob = base64_decode(text);
  if (!blob) return tokenizer_error(kPart, "precompiled_charsmap is not base64");
  auto charsmap = PrecompiledCharsmap::parse(*blob);
  if (!charsmap.ok()) return tokenizer_error(kPart, charsmap.error().message);
  return std::unique_ptr<const NormalizerPart>(std::make_unique<PrecompiledPart>(std::move(charsmap).value()));
}

}  // namespace unspool
