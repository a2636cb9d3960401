#include "tokenizer/normalizer.h"

#include <fmt/format.h>

#include <utility>

#include "tokenizer/bert_normalizer.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/character_normalizers.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/precompiled_normalizer.h"
#include "tokenizer/text_pattern.h"
#include "unicode/normalize.h"

namespace unspool {
namespace {

using LoadedPart = Result<std::unique_ptr<const NormalizerPart>>;

class FormPart final : public NormalizerPart {
 public:
  explicit FormPart(unicode::NormalForm form) : form_(form) {}
  void apply(NormalizedText& text) const override { text.text = unicode::normalize(text.text, form_); }

 private:
  unicode::NormalForm form_;
};

class PrependPart final : public NormalizerPart {
 public:
  explicit PrependPart(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(NormalizedText& text) const override {
    if (!text.text.empty()) text.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ReplacePart final : public NormalizerPart {
 public:
  ReplacePart(std::unique_ptr<const unicode::Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalizedText& text) const override {
    const bool removes_start = content_.empty() && !text.text.empty();
    std::string replaced;
    replaced.reserve(text.text.size());
    std::vector<unicode::Span> spans;
    pattern_->find_matches(text.text, spans);
    for (const unicode::Span& span : spans) {
      replaced.append(span.is_match ? content_ : text.text.substr(span.begin, span.end - span.begin));
    }
    if (removes_start && !spans.empty() && spans.front().is_match) text.begins_at_original = false;
    text.text = std::move(replaced);
  }

 private:
  std::unique_ptr<const unicode::Pattern> pattern_;
  std::string content_;
};

class ByteLevelPart final : public NormalizerPart {
 public:
  void apply(NormalizedText& text) const override {
    std::string mapped;
    append_byte_level(mapped, text.text);
    text.text = std::move(mapped);
  }
};

LoadedPart load_form(unicode::NormalForm form) {
  return std::unique_ptr<const NormalizerPart>(std::make_unique<FormPart>(form));
}

LoadedPart load_prepend(const JsonValue& json) {
  UNSPOOL_ASSIGN(std::string prefix, inserted_field("normalizer Prepend", json, "prepend"));
  return std::unique_ptr<const NormalizerPart>(std::make_unique<PrependPart>(std::move(prefix)));
}

LoadedPart load_replace(const JsonValue& json) {
  UNSPOOL_ASSIGN(auto pattern, load_pattern("normalizer Replace", json["pattern"]));
  UNSPOOL_ASSIGN(std::string content, inserted_field("normalizer Replace", json, "content"));
  return std::unique_ptr<const NormalizerPart>(std::make_unique<ReplacePart>(std::move(pattern), std::move(content)));
}

LoadedPart load_part(const std::string& type, const JsonValue& json) {
  using unicode::NormalForm;
  if (type == "NFC") return load_form(NormalForm::kNfc);
  if (type == "NFD") return load_form(NormalForm::kNfd);
  if (type == "NFKC") return load_form(NormalForm::kNfkc);
  if (type == "NFKD") return load_form(NormalForm::kNfkd);
  if (type == "Prepend") return load_prepend(json);
  if (type == "Replace") return load_replace(json);
  if (type == "ByteLevel") return std::unique_ptr<const NormalizerPart>(std::make_unique<ByteLevelPart>());
  if (type == "BertNormalizer") return load_bert_normalizer(json);
  if (type == "Precompiled") return load_precompiled_normalizer(json);
  return load_character_normalizer(type, json);
}

}  // namespace

Result<Normalizer> Normalizer::load(const JsonValue& json) {
  Normalizer normalizer;
  if (!json.is_null()) UNSPOOL_TRY(normalizer.add(json));
  return normalizer;
}

Status Normalizer::add(const JsonValue& json) {
  UNSPOOL_ASSIGN(const std::string type, type_field("normalizer", json));
  if (type != "Sequence") {
    UNSPOOL_ASSIGN(auto part, load_part(type, json));
    parts_.push_back(std::move(part));
    return {};
  }
  if (!json["normalizers"].is_array()) {
    return expected_error("normalizer Sequence.normalizers", "an array", json["normalizers"]);
  }
  for (const JsonValue& element : json["normalizers"].elements()) {
    if (element.is_null()) return expected_error("normalizer Sequence.normalizers", "objects", element);
    UNSPOOL_TRY(add(element));
  }
  return {};
}

NormalizedText Normalizer::apply(std::string_view text) const {
  NormalizedText result{std::string(text)};
  const size_t max_bytes = grown_size_limit(text.size());
  for (const auto& part : parts_) {
    if (result.text.size() > max_bytes) break;
    part->apply(result);
  }
  return result;
}

}  // namespace unspool
