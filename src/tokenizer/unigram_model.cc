#include "tokenizer/unigram_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tokenizer/json_fields.h"
#include "unicode/utf8.h"

namespace unspool {

class UnigramModel::Scratch final : public TokenModel::Scratch {
 public:
  std::vector<Node> nodes;
  std::vector<Part> parts;
};

namespace {

// How much less likely a character without a token is than the least likely token.
constexpr double kUnknownPenalty = 10.0;

}  // namespace

Result<UnigramModel> UnigramModel::load(const JsonValue& json) {
  UnigramModel model;
  UNSPOOL_TRY(model.load_vocabulary(json["vocab"]));
  if (!json["unk_id"].is_null()) {
    UNSPOOL_ASSIGN(model.unknown_id_, id_field("model Unigram", json, "unk_id"));
    if (static_cast<size_t>(model.unknown_id_) >= model.size()) {
      return tokenizer_error("model Unigram.unk_id",
                             fmt::format("expected an id below {}, got {}", model.size(), model.unknown_id_));
    }
  }
  UNSPOOL_ASSIGN(model.byte_fallback_, bool_field("model Unigram", json, "byte_fallback", false));
  if (model.byte_fallback_) model.byte_tokens_ = ByteTokens(model.vocabulary_);
  return model;
}

// [["<unk>", 0.0], ["a", -2.5], ...]: a token's place is its id.
Status UnigramModel::load_vocabulary(const JsonValue& json) {
  constexpr std::string_view kPart = "model Unigram.vocab";
  if (!json.is_array()) return expected_error(kPart, "an array", json);
  const std::vector<JsonValue> list = json.elements();
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(list.size());
  double min_score = std::numeric_limits<double>::infinity();
  size_t text_bytes = 0;
  for (const JsonValue& element : list) {
    const std::vector<JsonValue> pair = element.elements();
    const auto text = pair.size() == 2 ? pair[0].as_string() : std::nullopt;
    const auto score = pair.size() == 2 ? pair[1].as_double() : std::nullopt;
    if (!text || !score) return expected_error(kPart, "[token, score]", element);
    entries.emplace_back(*text, static_cast<int32_t>(scores_.size()));
    scores_.push_back(*score);
    min_score = std::min(min_score, *score);
    text_bytes += text->size();
  }
  unknown_score_ = min_score - kUnknownPenalty;
  vocabulary_.reserve(entries.size(), text_bytes);
  for (const auto& [text, id] : entries) vocabulary_.add(text, id);
  trie_ = PrefixTrie(std::move(entries));
  return {};
}

std::unique_ptr<TokenModel::Scratch> UnigramModel::make_scratch() const {
  return std::make_unique<Scratch>();
}

void UnigramModel::encode(std::string_view piece, TokenModel::Scratch& scratch, std::vector<int32_t>& ids) const {
  auto& [nodes, parts] = static_cast<Scratch&>(scratch);
  find_best_path(piece, nodes);
  trace_back(nodes, parts);
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    append_ids(piece.substr(part->begin, part->end - part->begin), ids);
  }
}

// Of ways that score alike the one found first holds: the one whose last token begins further left.
void UnigramModel::find_best_path(std::string_view piece, std::vector<Node>& nodes) const {
  nodes.assign(piece.size() + 1, Node());
  const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
    Node& node = nodes[end];
    if (node.begin < 0 || score > node.score) node = {score, static_cast<int64_t>(begin), id};
  };
  for (size_t begin = 0, character_end = 0; begin < piece.size(); begin = character_end) {
    character_end = begin + unicode::decode(piece, begin).size_bytes;
    const double before = nodes[begin].score;
    bool any_character = false;
    trie_.visit_prefixes(piece, begin, [&](size_t end, int32_t id) {
      offer(begin, end, scores_[static_cast<size_t>(id)] + before, id);
      any_character = any_character || end == character_end;
    });
    // Without a token for the character by itself a later place might not be reached.
    if (!any_character) offer(begin, character_end, unknown_score_ + before, unknown_id_);
  }
}

// The parts of the best way from the last to the first; neighbours that are unknown are one part.
void UnigramModel::trace_back(const std::vector<Node>& nodes, std::vector<Part>& parts) const {
  parts.clear();
  bool after_unknown = false;
  for (size_t end = nodes.size() - 1; end > 0;) {
    const Node& node = nodes[end];
    const auto begin = static_cast<size_t>(node.begin);
    const bool unknown = node.id == unknown_id_;
    if (unknown && after_unknown) {
      parts.back().begin = begin;
    } else {
      parts.push_back({begin, end});
    }
    after_unknown = unknown;
    end = begin;
  }
}

// A part is looked up as a whole: unknown characters put together may be a token after all.
void UnigramModel::append_ids(std::string_view part, std::vector<int32_t>& ids) const {
  if (const int32_t id = vocabulary_.find(part); id >= 0) {
    ids.push_back(id);
    return;
  }
  if (byte_fallback_ && byte_tokens_.spell(part, [&](int32_t id) { ids.push_back(id); })) return;
  if (unknown_id_ >= 0) ids.push_back(unknown_id_);
}

}  // namespace unspool
