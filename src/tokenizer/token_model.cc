#include "tokenizer/token_model.h"

#include <fmt/format.h>

#include <utility>

#include "tokenizer/bpe_model.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/unigram_model.h"

namespace unspool {
namespace {

template <class Model>
Result<std::unique_ptr<const TokenModel>> as_model(Result<Model> model) {
  if (!model.ok()) return std::move(model).error();
  return std::unique_ptr<const TokenModel>(std::make_unique<Model>(std::move(model).value()));
}

}  // namespace

Result<std::string> TokenModel::type_of(const JsonValue& json) {
  if (!json.is_object()) return expected_error("model", "an object", json);
  if (json["type"].is_null()) {
    if (json["vocab"].is_object() && !json["merges"].is_null()) return std::string("BPE");
    if (json["vocab"].is_array()) return std::string("Unigram");
  }
  return type_field("model", json);
}

Result<std::unique_ptr<const TokenModel>> TokenModel::load(const JsonValue& json, const JsonValue& options) {
  UNSPOOL_ASSIGN(const std::string type, type_of(json));
  if (type == "BPE") return as_model(BpeModel::load(json, options.is_null() ? json : options));
  if (type == "Unigram") return as_model(UnigramModel::load(json));
  return tokenizer_error("model", fmt::format("type {} is not supported (BPE and Unigram are)", type));
}

}  // namespace unspool
