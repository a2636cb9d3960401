#include "tokenizer/added_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tokenizer/json_fields.h"
#include "unicode/categories.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

// Of all tokens as they are sought: a normalizer may make them longer than they are in the file. Real ones have some
// tens of kilobytes, and each byte is a node of a tree.
constexpr size_t kMaxSoughtBytes = size_t{4} << 20;

Result<AddedToken> load_token(const JsonValue& json, const Normalizer& normalizer) {
  constexpr std::string_view kPart = "added_tokens";
  AddedToken token;
  UNSPOOL_ASSIGN(token.content, string_field(kPart, json, "content"));
  UNSPOOL_ASSIGN(token.single_word, bool_field(kPart, json, "single_word"));
  UNSPOOL_ASSIGN(token.lstrip, bool_field(kPart, json, "lstrip"));
  UNSPOOL_ASSIGN(token.rstrip, bool_field(kPart, json, "rstrip"));
  UNSPOOL_ASSIGN(token.normalized, bool_field(kPart, json, "normalized"));
  UNSPOOL_ASSIGN(token.special, bool_field(kPart, json, "special"));
  UNSPOOL_TRY(id_field(kPart, json, "id"));
  token.piece = token.normalized ? normalizer.apply(token.content).text : token.content;
  return token;
}

bool touches_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && unicode::is_word(unicode::decode_before(text, begin).code_point)) ||
         (end < text.size() && unicode::is_word(unicode::decode(text, end).code_point));
}

size_t spaces_begin(std::string_view text, size_t end) {
  while (end > 0) {
    const unicode::Decoded character = unicode::decode_before(text, end);
    if (!unicode::is_space(character.code_point)) break;
    end -= character.size_bytes;
  }
  return end;
}

size_t spaces_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const unicode::Decoded character = unicode::decode(text, begin);
    if (!unicode::is_space(character.code_point)) break;
    begin += character.size_bytes;
  }
  return begin;
}

}  // namespace

Result<AddedVocabulary> AddedVocabulary::load(const JsonValue& json, const TokenModel& model,
                                              const Normalizer& normalizer) {
  AddedVocabulary added;
  if (json.is_null()) return added;
  if (!json.is_array()) return expected_error("added_tokens", "an array", json);
  std::vector<AddedToken> tokens;
  size_t sought_bytes = 0;
  for (const JsonValue& element : json.elements()) {
    UNSPOOL_ASSIGN(AddedToken token, load_token(element, normalizer));
    sought_bytes += token.piece.size();
    if (sought_bytes > kMaxSoughtBytes) {
      return tokenizer_error("added_tokens", fmt::format("expected at most {} bytes in all", kMaxSoughtBytes));
    }
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  added.add(tokens, model);
  added.index(tokens);
  return added;
}

void AddedVocabulary::add(const std::vector<AddedToken>& tokens, const TokenModel& model) {
  auto next = static_cast<int32_t>(model.size());
  for (const AddedToken& token : tokens) {
    if (token.special) special_contents_.insert(token.content);
    int32_t id = find(token.content);
    if (id < 0) id = model.vocabulary().find(token.content);
    if (id < 0) id = next;
    next = std::max(next, id + 1);
    ids_.insert_or_assign(token.content, id);
    tokens_.insert_or_assign(id, token);  // of entries that agree in content the last one's flags hold
  }
}

void AddedVocabulary::index(const std::vector<AddedToken>& tokens) {
  const auto add = [&](const AddedToken& token) {
    (token.normalized ? normalized_ : raw_).add(token.piece, find(token.content));
  };
  // The special ones first: of texts that agree once normalized, the first is found. Of special entries that agree in
  // content the first one says where it is sought.
  std::unordered_set<std::string> seen;
  for (const AddedToken& token : tokens) {
    if (token.special && seen.insert(token.content).second) add(token);
  }
  for (const AddedToken& token : tokens) {
    if (!is_special(token.content)) add(token);
  }
}

int32_t AddedVocabulary::find(std::string_view content) const {
  const auto it = ids_.find(std::string(content));
  return it == ids_.end() ? -1 : it->second;
}

// The rule of PyPI's `tokenizers`, oddities too: a token that lies in the white space which the one before it took is
// still found, and the text after it begins at its own end; where stripping leaves nothing of it, it is dropped.
std::vector<AddedVocabulary::Part> AddedVocabulary::split(std::string_view text, const TokenTrie& trie) const {
  std::vector<Part> parts;
  size_t covered = 0;
  TokenTrie::Found found{};
  for (size_t from = 0; trie.find(text, from, found); from = found.end) {
    const AddedToken& token = tokens_.at(found.id);
    size_t begin = found.begin;
    size_t end = found.end;
    if (token.single_word && touches_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(spaces_begin(text, begin), covered);
    if (token.rstrip) end = spaces_end(text, end);
    if (covered < begin) parts.push_back({covered, begin, -1});
    if (begin < end) parts.push_back({begin, end, found.id});
    covered = end;
  }
  if (covered != text.size()) parts.push_back({covered, text.size(), -1});
  return parts;
}

}  // namespace unspool
