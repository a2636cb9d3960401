#include "tokenizer/bert_normalizer.h"

#include <utility>

#include "tokenizer/character_normalizers.h"
#include "tokenizer/json_fields.h"
#include "unicode/categories.h"
#include "unicode/normalize.h"

namespace unspool {
namespace {

// The ranges that BERT's own code lists; newer ideographs are not among them.
bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

struct BertOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = false;
  bool lowercase = true;
};

class BertPart final : public NormalizerPart {
 public:
  explicit BertPart(const BertOptions& options) : options_(options) {}

  void apply(NormalizedText& text) const override {
    if (options_.clean_text) {
      rewrite_characters(text, [](std::string& out, char32_t c) {
        if ((unicode::properties(c) & unicode::kControl) != 0) return;
        unicode::append(out, unicode::is_space(c) ? U' ' : c);
      });
    }
    if (options_.handle_chinese_chars) {
      rewrite_characters(text, [](std::string& out, char32_t c) {
        const bool chinese = is_chinese(c);
        if (chinese) out.push_back(' ');
        unicode::append(out, c);
        if (chinese) out.push_back(' ');
      });
    }
    if (options_.strip_accents) {
      text.text = unicode::normalize(text.text, unicode::NormalForm::kNfd);
      rewrite_characters(text, [](std::string& out, char32_t c) {
        if ((unicode::properties(c) & unicode::kNonspacing) == 0) unicode::append(out, c);
      });
    }
    if (options_.lowercase) rewrite_characters(text, unicode::append_lower_case);
  }

 private:
  BertOptions options_;
};

}  // namespace

Result<std::unique_ptr<const NormalizerPart>> load_bert_normalizer(const JsonValue& json) {
  constexpr std::string_view kPart = "normalizer BertNormalizer";
  BertOptions options;
  UNSPOOL_ASSIGN(options.clean_text, bool_field(kPart, json, "clean_text"));
  UNSPOOL_ASSIGN(options.handle_chinese_chars, bool_field(kPart, json, "handle_chinese_chars"));
  UNSPOOL_ASSIGN(options.lowercase, bool_field(kPart, json, "lowercase"));
  UNSPOOL_ASSIGN(options.strip_accents, bool_field(kPart, json, "strip_accents", options.lowercase));
  return std::unique_ptr<const NormalizerPart>(std::make_unique<BertPart>(options));
}

}  // namespace unspool
