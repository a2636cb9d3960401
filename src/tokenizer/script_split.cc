#include "tokenizer/script_split.h"

#include <utility>
#include <vector>

#include "unicode/categories.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

// Characters that go with any script stay with what they follow; at the start of a piece they are dropped, as PyPI's
// `tokenizers` does.
class ScriptSplit final : public PreTokenizer {
 public:
  void apply(SplitText& text) const override {
    std::vector<SplitText::Piece> pieces;
    for (const SplitText::Piece& piece : text.pieces()) split(text.text(piece), piece, pieces);
    text.replace_pieces(std::move(pieces));
  }

 private:
  static void split(std::string_view text, const SplitText::Piece& whole, std::vector<SplitText::Piece>& pieces) {
    uint16_t before = 0;
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      const unicode::Decoded character = unicode::decode(text, at);
      end = at + character.size_bytes;
      const uint16_t script = unicode::script(character.code_point);
      if (script != 0 && script != before) {
        pieces.push_back({whole.begin + at, 0, whole.begins_original && at == 0});
        before = script;
      }
      if (before != 0) pieces.back().end = whole.begin + end;
    }
  }
};

}  // namespace

std::unique_ptr<const PreTokenizer> make_script_split() {
  return std::make_unique<ScriptSplit>();
}

}  // namespace unspool
