#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/file.h"
#include "json/json.h"
#include "tokenizer/added_vocabulary.h"
#include "tokenizer/decoder.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/replaced_parts.h"
#include "tokenizer/token_model.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

// The parts of a tokenizer.json, in the order in which text passes through them.
struct Pipeline {
  AddedVocabulary added;
  Normalizer normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  PostProcessor post_processor;
  Decoder decoder;
  std::string space_marker;  // what a Metaspace pre-tokenizer writes for a space, empty where there is none
};

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(Pipeline pipeline) : pipeline_(std::move(pipeline)) { index_tokens(); }

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  int32_t vocab_size() const override { return static_cast<int32_t>(tokens_.size()); }
  std::string_view id_to_piece(int32_t id) const override { return token(id).piece; }
  int32_t piece_to_id(std::string_view piece) const override;
  std::string_view id_to_bytes(int32_t id) const override {
    return std::string_view(bytes_).substr(token(id).bytes_begin, token(id).num_bytes);
  }
  bool is_special(int32_t id) const override { return token(id).special; }
  std::string_view separator() const override { return pipeline_.decoder.separator(); }
  bool joins_bytes() const override { return pipeline_.decoder.joins_bytes(); }
  std::string token_text(int32_t id) const override;
  int32_t max_piece_chars() const override { return max_piece_chars_; }

 private:
  struct Token {
    std::string_view piece;  // of pipeline_; empty where there is no such token
    size_t bytes_begin = 0;  // in bytes_
    size_t num_bytes = 0;
    bool special = false;
  };

  void index_tokens();
  const Token& token(int32_t id) const {
    return id >= 0 && id < vocab_size() ? tokens_[static_cast<size_t>(id)] : no_token_;
  }
  // `begins_original`: nothing of the text lies before the segment.
  void encode_segment(std::string_view segment, bool begins_original, TokenModel::Scratch& scratch,
                      std::vector<int32_t>& ids) const;
  void encode_normalized(std::string_view segment, bool begins_original, TokenModel::Scratch& scratch,
                         std::vector<int32_t>& ids) const;

  Pipeline pipeline_;
  std::vector<Token> tokens_;  // by id
  Token no_token_;
  std::string bytes_;
  int32_t max_piece_chars_ = 0;
};

void PipelineTokenizer::index_tokens() {
  const Vocabulary& vocabulary = pipeline_.model->vocabulary();
  int32_t end_id = vocabulary.end_id();
  for (const auto& [id, added] : pipeline_.added.tokens()) end_id = std::max(end_id, id + 1);
  tokens_.resize(static_cast<size_t>(end_id));
  for (int32_t id = 0; id < end_id; ++id) {
    Token& token = tokens_[static_cast<size_t>(id)];
    const auto added = pipeline_.added.tokens().find(id);
    const bool is_added = added != pipeline_.added.tokens().end();
    token.piece = is_added ? added->second.piece : vocabulary.text(id);
    // By the piece: a special token whose content the normalizer changes is shown all the same, as in `tokenizers`.
    token.special = pipeline_.added.is_special(token.piece);
    if (token.piece.empty()) continue;
    const std::string bytes = pipeline_.decoder.bytes(token.piece);
    token.bytes_begin = bytes_.size();
    token.num_bytes = bytes.size();
    bytes_.append(bytes);
    max_piece_chars_ = std::max(max_piece_chars_, static_cast<int32_t>(unicode::count_characters(token.piece)));
  }
}

std::vector<int32_t> PipelineTokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::string valid;
  if (!unicode::is_valid(text)) {
    valid = unicode::to_valid(text);
    text = valid;
  }
  std::vector<int32_t> ids;
  const auto scratch = pipeline_.model->make_scratch();
  for (const AddedVocabulary::Part& part : pipeline_.added.split_raw(text)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      encode_segment(text.substr(part.begin, part.end - part.begin), part.begin == 0, *scratch, ids);
    }
  }
  return pipeline_.post_processor.apply(std::move(ids), add_special_tokens);
}

void PipelineTokenizer::encode_segment(std::string_view segment, bool begins_original, TokenModel::Scratch& scratch,
                                       std::vector<int32_t>& ids) const {
  NormalizedText normalized;
  if (!pipeline_.normalizer.is_identity()) {
    normalized = pipeline_.normalizer.apply(segment);
    segment = normalized.text;
    begins_original = begins_original && normalized.begins_at_original;
  }
  for (const AddedVocabulary::Part& part : pipeline_.added.split_normalized(segment)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      encode_normalized(segment.substr(part.begin, part.end - part.begin), begins_original && part.begin == 0, scratch,
                        ids);
    }
  }
}

void PipelineTokenizer::encode_normalized(std::string_view segment, bool begins_original, TokenModel::Scratch& scratch,
                                          std::vector<int32_t>& ids) const {
  SplitText text(segment, begins_original);
  if (pipeline_.pre_tokenizer != nullptr) pipeline_.pre_tokenizer->apply(text);
  for (const SplitText::Piece& piece : text.pieces()) pipeline_.model->encode(text.text(piece), scratch, ids);
}

std::string PipelineTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  const auto is_shown = [&](int32_t id) {
    return !token(id).piece.empty() && !(skip_special_tokens && token(id).special);
  };
  if (!joins_bytes()) {
    std::vector<std::string> tokens;
    for (const int32_t id : ids) {
      if (is_shown(id)) tokens.emplace_back(token(id).piece);
    }
    return pipeline_.decoder.text(std::move(tokens));
  }
  std::string bytes;
  bool any_before = false;
  for (const int32_t id : ids) {
    if (!is_shown(id)) continue;
    if (any_before) bytes.append(separator());
    bytes.append(id_to_bytes(id));
    any_before = true;
  }
  return unicode::to_valid(bytes);
}

// The decoder takes the space off a text's first word; where a pre-tokenizer put it there, the reference gives it back.
std::string PipelineTokenizer::token_text(int32_t id) const {
  std::string text = decode(std::span(&id, 1), false);
  const std::string_view marker = pipeline_.space_marker;
  if (marker.empty()) return text;
  size_t missing = 0;
  for (std::string_view piece = token(id).piece; piece.starts_with(marker); piece.remove_prefix(marker.size())) {
    ++missing;
  }
  missing -= std::min(missing, std::min(text.find_first_not_of(' '), text.size()));
  return text.insert(0, missing, ' ');
}

int32_t PipelineTokenizer::piece_to_id(std::string_view piece) const {
  const int32_t id = pipeline_.added.find(piece);
  return id >= 0 ? id : pipeline_.model->vocabulary().find(piece);
}

// The first Metaspace's of a pre-tokenizer that is known to be sound, at its top or in a sequence.
std::string space_marker(const JsonValue& pre_tokenizer) {
  if (pre_tokenizer["type"].as_string() == "Metaspace") {
    return std::string(pre_tokenizer["replacement"].as_string().value_or(""));
  }
  for (const JsonValue& element : pre_tokenizer["pretokenizers"].elements()) {
    if (element["type"].as_string() == "Metaspace") return space_marker(element);
  }
  return {};
}

// A part of the file, or what stands in for it.
class Part {
 public:
  static Result<Part> choose(const JsonValue& own, const std::optional<std::string>& instead) {
    if (!instead) return Part(own, std::nullopt);
    UNSPOOL_ASSIGN(JsonDocument document, JsonDocument::parse(*instead));
    const JsonValue root = document.root();
    return Part(root, std::move(document));
  }
  const JsonValue& json() const { return json_; }

 private:
  Part(const JsonValue& json, std::optional<JsonDocument> document) : json_(json), document_(std::move(document)) {}
  JsonValue json_;
  std::optional<JsonDocument> document_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json) {
  return tokenizer_from_json(tokenizer_json, {});
}

Result<std::shared_ptr<const Tokenizer>> tokenizer_from_json(std::string_view tokenizer_json,
                                                             const ReplacedParts& instead) {
  UNSPOOL_ASSIGN(const JsonDocument document, JsonDocument::parse(tokenizer_json));
  const JsonValue root = document.root();
  if (!root.is_object()) return expected_error("the file", "an object", root);
  UNSPOOL_ASSIGN(const Part normalizer, Part::choose(root["normalizer"], instead.normalizer));
  UNSPOOL_ASSIGN(const Part pre_tokenizer, Part::choose(root["pre_tokenizer"], instead.pre_tokenizer));
  UNSPOOL_ASSIGN(const Part decoder, Part::choose(root["decoder"], instead.decoder));
  UNSPOOL_ASSIGN(const Part model_options, Part::choose(JsonValue(), instead.model_options));
  Pipeline pipeline;
  UNSPOOL_ASSIGN(pipeline.model, TokenModel::load(root["model"], model_options.json()));
  UNSPOOL_ASSIGN(pipeline.normalizer, Normalizer::load(normalizer.json()));
  UNSPOOL_ASSIGN(pipeline.pre_tokenizer, PreTokenizer::load(pre_tokenizer.json()));
  UNSPOOL_ASSIGN(pipeline.post_processor, PostProcessor::load(root["post_processor"]));
  UNSPOOL_ASSIGN(pipeline.decoder, Decoder::load(decoder.json()));
  pipeline.space_marker = space_marker(pre_tokenizer.json());
  UNSPOOL_ASSIGN(pipeline.added, AddedVocabulary::load(root["added_tokens"], *pipeline.model, pipeline.normalizer));
  const int32_t max_special_id = pipeline.post_processor.max_id();
  auto tokenizer = std::make_shared<const PipelineTokenizer>(std::move(pipeline));
  if (max_special_id >= tokenizer->vocab_size()) {
    return tokenizer_error("post_processor", fmt::format("expected ids below {}, the size of the vocabulary, got {}",
                                                         tokenizer->vocab_size(), max_special_id));
  }
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& path) {
  UNSPOOL_ASSIGN(const std::string text, read_file(path));
  auto tokenizer = from_json(text);
  if (!tokenizer.ok()) {
    Error error = tokenizer.error();
    error.message = fmt::format("{}: {}", path, error.message);
    return error;
  }
  return tokenizer;
}

}  // namespace unspool
