#include "tokenizer/normalizer.h"

#include <fmt/format.h>

#include <utility>

#include "tokenizer/json_fields.h"

namespace unspool {

Result<Normalizer> Normalizer::load(const JsonValue& json) {
  Normalizer normalizer;
  if (json.is_null()) return normalizer;
  UNSPOOL_ASSIGN(const std::string type, type_field("normalizer", json));
  if (type == "NFC") {
    normalizer.forms_ = {unicode::NormalForm::kNfc};
  } else if (type == "NFD") {
    normalizer.forms_ = {unicode::NormalForm::kNfd};
  } else if (type == "NFKC") {
    normalizer.forms_ = {unicode::NormalForm::kNfkc};
  } else if (type == "NFKD") {
    normalizer.forms_ = {unicode::NormalForm::kNfkd};
  } else if (type == "Sequence") {
    if (!json["normalizers"].is_array()) {
      return expected_error("normalizer Sequence.normalizers", "an array", json["normalizers"]);
    }
    for (const JsonValue& element : json["normalizers"].elements()) {
      if (element.is_null()) return expected_error("normalizer Sequence.normalizers", "objects", element);
      UNSPOOL_ASSIGN(const Normalizer inner, load(element));
      normalizer.forms_.insert(normalizer.forms_.end(), inner.forms_.begin(), inner.forms_.end());
    }
  } else {
    return tokenizer_error("normalizer",
                           fmt::format("type {} is not supported (NFC, NFD, NFKC, NFKD and Sequence are)", type));
  }
  return normalizer;
}

std::string Normalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const unicode::NormalForm form : forms_) result = unicode::normalize(result, form);
  return result;
}

}  // namespace unspool
