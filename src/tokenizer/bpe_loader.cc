// BpeModel from the "model" of tokenizer.json.
#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/bpe_model.h"
#include "tokenizer/json_fields.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

// Real vocabularies leave few ids out. Far more room than tokens is a malformed file, not memory to spend.
constexpr int64_t kMaxIdsPerToken = 16;
constexpr int64_t kMaxIdsAnyway = 1 << 16;

// What sets a merge apart from the next: "a b" or ["a", "b"].
struct MergePair {
  std::string_view left;
  std::string_view right;
};

Result<MergePair> merge_pair(const JsonValue& json) {
  if (const auto line = json.as_string()) {
    const size_t space = line->find(' ');
    if (space != std::string_view::npos && line->find(' ', space + 1) == std::string_view::npos) {
      return MergePair{line->substr(0, space), line->substr(space + 1)};
    }
  } else if (json.size() == 2) {
    const std::vector<JsonValue> pair = json.elements();
    const auto left = pair[0].as_string();
    const auto right = pair[1].as_string();
    if (left && right) return MergePair{*left, *right};
  }
  return expected_error("model BPE.merges", "\"a b\" or [\"a\", \"b\"]", json);
}

// Errors: kInvalidArgument where `json` asks for a way of encoding that BpeModel does not have.
Status refuse_unsupported(const JsonValue& json) {
  if (json["dropout"].as_double().value_or(0.0) != 0.0) {
    return tokenizer_error("model BPE", "dropout is not supported: the same text must give the same ids");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!json[name].as_string().value_or("").empty()) {
      return tokenizer_error("model BPE", fmt::format("{} is not supported", name));
    }
  }
  return {};
}

}  // namespace

Result<BpeModel> BpeModel::load(const JsonValue& json, const JsonValue& options) {
  UNSPOOL_TRY(refuse_unsupported(options));
  BpeModel model;
  UNSPOOL_TRY(model.load_vocabulary(json["vocab"]));
  UNSPOOL_TRY(model.load_merges(json["merges"]));
  UNSPOOL_ASSIGN(model.byte_fallback_, bool_field("model BPE", options, "byte_fallback", false));
  if (model.byte_fallback_) model.byte_tokens_ = ByteTokens(model.vocabulary_);
  UNSPOOL_ASSIGN(model.fuse_unknown_, bool_field("model BPE", options, "fuse_unk", false));
  UNSPOOL_ASSIGN(model.ignore_merges_, bool_field("model BPE", options, "ignore_merges", false));
  if (const auto unknown = options["unk_token"].as_string()) model.unknown_id_ = model.vocabulary_.find(*unknown);
  model.index_characters();
  return model;
}

Status BpeModel::load_vocabulary(const JsonValue& json) {
  if (!json.is_object()) return expected_error("model BPE.vocab", "an object", json);
  const auto members = json.members();
  size_t text_bytes = 0;
  for (const auto& [text, id] : members) text_bytes += text.size();
  vocabulary_.reserve(members.size(), text_bytes);
  const int64_t end_id = std::max(kMaxIdsAnyway, kMaxIdsPerToken * static_cast<int64_t>(members.size()));
  for (const auto& [text, value] : members) {
    UNSPOOL_ASSIGN(const int32_t id, token_id("model BPE.vocab", value));
    if (id >= end_id) {
      return tokenizer_error("model BPE.vocab",
                             fmt::format("expected ids below {} for {} tokens, got {}", end_id, members.size(), id));
    }
    vocabulary_.add(text, id);
  }
  return {};
}

Status BpeModel::load_merges(const JsonValue& json) {
  if (!json.is_array()) return expected_error("model BPE.merges", "an array", json);
  const std::vector<JsonValue> list = json.elements();
  merges_.reset(list.size());
  std::string joined;
  uint32_t rank = 0;
  for (const JsonValue& element : list) {
    if (element.as_string().value_or("").starts_with("#version")) continue;  // the first line of a merges.txt
    UNSPOOL_ASSIGN(const MergePair pair, merge_pair(element));
    joined.assign(pair.left).append(pair.right);
    const int32_t left = vocabulary_.find(pair.left);
    const int32_t right = vocabulary_.find(pair.right);
    const int32_t new_id = vocabulary_.find(joined);
    if (left < 0 || right < 0 || new_id < 0) {
      return tokenizer_error("model BPE.merges", fmt::format("merge {} of {} and {}: token {} is not in the vocabulary",
                                                             rank, pair.left, pair.right,
                                                             left < 0    ? pair.left
                                                             : right < 0 ? pair.right
                                                                         : std::string_view(joined)));
    }
    merges_.add(left, right, {rank, new_id});
    ++rank;
  }
  return {};
}

void BpeModel::index_characters() {
  std::string text;
  for (char32_t code_point = 0; code_point < kByteLevelEnd; ++code_point) {
    text.clear();
    unicode::append(text, code_point);
    character_ids_[code_point] = vocabulary_.find(text);
  }
}

}  // namespace unspool
