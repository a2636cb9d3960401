// The pre-tokenizer of tokenizer.json: cuts text into the pieces that the model encodes one by one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"

namespace unspool {

// A text cut into pieces, each a non-empty range of bytes. A pre-tokenizer cuts further, drops, or rewrites the text.
class SplitText {
 public:
  struct Piece {
    size_t begin;
    size_t end;
    bool begins_original = false;  // nothing of the text that was asked for lies before it
  };

  // One piece, the whole of `text` (none where it is empty), which must outlive this.
  SplitText(std::string_view text, bool begins_original);
  SplitText(const SplitText&) = delete;
  SplitText& operator=(const SplitText&) = delete;

  const std::vector<Piece>& pieces() const { return pieces_; }
  std::string_view text(const Piece& piece) const { return text_.substr(piece.begin, piece.end - piece.begin); }
  void replace_pieces(std::vector<Piece> pieces) { pieces_ = std::move(pieces); }
  void replace_text(std::string text, std::vector<Piece> pieces);

 private:
  std::string storage_;    // of text_, once it was rewritten
  std::string_view text_;  // valid UTF-8; pieces begin and end between characters
  std::vector<Piece> pieces_;
};

// Immutable; apply may be called from several threads at once.
class PreTokenizer {
 public:
  // Nullptr for null. Errors: kInvalidArgument naming a type that is not supported, or a field of the wrong kind.
  static Result<std::unique_ptr<const PreTokenizer>> load(const JsonValue& json);
  virtual ~PreTokenizer() = default;
  virtual void apply(SplitText& text) const = 0;
};

}  // namespace unspool
