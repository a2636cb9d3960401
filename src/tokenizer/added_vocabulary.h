// Added tokens: texts that are tokens by themselves, found before the model sees the text around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/token_model.h"
#include "tokenizer/token_trie.h"

namespace unspool {

struct AddedToken {
  std::string content;
  std::string piece;         // the content, normalized where `normalized`: what it decodes to
  bool single_word = false;  // not beside a word character
  bool lstrip = false;       // takes the white space on its left
  bool rstrip = false;       // and on its right
  bool normalized = false;   // sought in normalized text, by its normalized content
  bool special = false;      // left out of decoded text on request
};

class AddedVocabulary {
 public:
  // Part of a text: an added token, or text between them (id -1).
  struct Part {
    size_t begin;
    size_t end;
    int32_t id;
  };

  // Reads the list `json`. A token has the id that `model` gives its content, else the next free one: what the file
  // says is not asked, as in PyPI's `tokenizers`. Errors: kInvalidArgument naming a malformed entry.
  static Result<AddedVocabulary> load(const JsonValue& json, const TokenModel& model, const Normalizer& normalizer);

  // The parts of raw text by the tokens that are not normalized, and of normalized text by the others.
  std::vector<Part> split_raw(std::string_view text) const { return split(text, raw_); }
  std::vector<Part> split_normalized(std::string_view text) const { return split(text, normalized_); }

  const std::unordered_map<int32_t, AddedToken>& tokens() const { return tokens_; }
  int32_t find(std::string_view content) const;  // -1 where absent
  bool is_special(std::string_view content) const { return special_contents_.contains(std::string(content)); }

 private:
  void add(const std::vector<AddedToken>& tokens, const TokenModel& model);
  void index(const std::vector<AddedToken>& tokens);
  std::vector<Part> split(std::string_view text, const TokenTrie& trie) const;

  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<int32_t, AddedToken> tokens_;
  std::unordered_set<std::string> special_contents_;
  TokenTrie raw_;
  TokenTrie normalized_;
};

}  // namespace unspool
