#include "tokenizer/character_normalizers.h"

#include <fmt/format.h>

#include <utility>

#include "tokenizer/json_fields.h"
#include "unicode/categories.h"

namespace unspool {
namespace {

class LowercasePart final : public NormalizerPart {
 public:
  void apply(NormalizedText& text) const override { rewrite_characters(text, unicode::append_lower_case); }
};

class StripPart final : public NormalizerPart {
 public:
  StripPart(bool left, bool right) : left_(left), right_(right) {}

  void apply(NormalizedText& text) const override {
    const std::string& all = text.text;
    size_t begin = 0;
    size_t end = all.size();
    while (right_ && end > 0) {
      const unicode::Decoded character = unicode::decode_before(all, end);
      if (!unicode::is_space(character.code_point)) break;
      end -= character.size_bytes;
    }
    while (left_ && begin < end) {
      const unicode::Decoded character = unicode::decode(all, begin);
      if (!unicode::is_space(character.code_point)) break;
      begin += character.size_bytes;
    }
    if (begin > 0) text.begins_at_original = false;
    text.text = all.substr(begin, end - begin);
  }

 private:
  bool left_;
  bool right_;
};

class StripAccentsPart final : public NormalizerPart {
 public:
  void apply(NormalizedText& text) const override {
    rewrite_characters(text, [](std::string& out, char32_t c) {
      if ((unicode::properties(c) & unicode::kCombining) == 0) unicode::append(out, c);
    });
  }
};

// As sentencepiece's nmt: controls go, and odd white space becomes a space.
class NmtPart final : public NormalizerPart {
 public:
  void apply(NormalizedText& text) const override {
    rewrite_characters(text, [](std::string& out, char32_t c) {
      if (!is_removed(c)) unicode::append(out, is_white(c) ? U' ' : c);
    });
  }

 private:
  static bool is_removed(char32_t c) {
    return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  }
  static bool is_white(char32_t c) {
    return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  }
};

}  // namespace

Result<std::unique_ptr<const NormalizerPart>> load_character_normalizer(const std::string& type,
                                                                        const JsonValue& json) {
  std::unique_ptr<const NormalizerPart> part;
  if (type == "Lowercase") {
    part = std::make_unique<LowercasePart>();
  } else if (type == "Strip") {
    UNSPOOL_ASSIGN(const bool left, bool_field("normalizer Strip", json, "strip_left"));
    UNSPOOL_ASSIGN(const bool right, bool_field("normalizer Strip", json, "strip_right"));
    part = std::make_unique<StripPart>(left, right);
  } else if (type == "StripAccents") {
    part = std::make_unique<StripAccentsPart>();
  } else if (type == "Nmt") {
    part = std::make_unique<NmtPart>();
  } else {
    return tokenizer_error("normalizer", fmt::format("type {} is not supported", type));
  }
  return part;
}

}  // namespace unspool
