// Small tokenizers for tests, written as tokenizer.json.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "json/json.h"
#include "tokenizer/tokenizer.h"

namespace unspool {

// A recorded list of ids.
inline std::vector<int32_t> ids_of(const JsonValue& json) {
  std::vector<int32_t> ids;
  for (const JsonValue& id : json.elements()) ids.push_back(static_cast<int32_t>(*id.as_int64()));
  return ids;
}

// The parts of a tokenizer.json, as JSON.
struct TokenizerParts {
  std::string added_tokens = "[]";
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = "null";
  std::string model = R"({"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4," ":5,"bc":6},)"
                      R"("merges":["a b","ab c"]})";

  std::string json() const {
    return R"({"added_tokens":)" + added_tokens + R"(,"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" +
           pre_tokenizer + R"(,"post_processor":)" + post_processor + R"(,"decoder":)" + decoder + R"(,"model":)" +
           model + "}";
  }
};

inline std::shared_ptr<const Tokenizer> make_tokenizer(const TokenizerParts& parts) {
  auto tokenizer = Tokenizer::from_json(parts.json());
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.error().message);
  return *tokenizer;
}

// The message of the error that loading gives, "" where it gives none.
inline std::string load_error(const TokenizerParts& parts) {
  const auto tokenizer = Tokenizer::from_json(parts.json());
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

// A byte-level model of all single bytes (id = byte) without merges, so that ids show bytes.
std::string byte_model(const std::string& more_vocab = "", const std::string& merges = "");

inline std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> result;
  for (const int32_t id : tokenizer.encode(text, false)) result.emplace_back(tokenizer.id_to_piece(id));
  return result;
}

}  // namespace unspool
