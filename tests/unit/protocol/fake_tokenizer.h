// A tokenizer of the few pieces that the recorded replies hold; any other text is one token a byte.
#pragma once

#include <map>
#include <string>

#include "tokenizer/tokenizer.h"

namespace unspool {

class FakeTokenizer : public Tokenizer {
 public:
  FakeTokenizer() {
    for (int byte = 0; byte < 256; ++byte) pieces_[kFirstByte + byte] = std::string(1, static_cast<char>(byte));
  }

  std::vector<int32_t> encode(std::string_view text, bool) const override {
    if (text == "The capital of France is") return {504, 3575, 282, 4649, 314};
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(kFirstByte + static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const int32_t> ids, bool) const override {
    std::string out;
    for (const int32_t id : ids) out += id_to_bytes(id);
    return out;
  }
  int32_t vocab_size() const override { return 49152; }
  std::string_view id_to_piece(int32_t id) const override { return id_to_bytes(id); }
  int32_t piece_to_id(std::string_view) const override { return -1; }
  std::string_view id_to_bytes(int32_t id) const override {
    const auto at = pieces_.find(id);
    return at == pieces_.end() ? std::string_view() : at->second;
  }
  bool is_special(int32_t) const override { return false; }
  std::string_view separator() const override { return {}; }
  int32_t max_piece_chars() const override { return 8; }

  static constexpr int32_t kFirstByte = 10000;

 private:
  std::map<int32_t, std::string> pieces_ = {
      {504, "The"},  {3575, " capital"}, {282, " of"},    {4649, " France"}, {314, " is"}, {7042, " Paris"},
      {30, "."},     {198, "\n"},        {29, "-"},       {260, " the"},     {28, ","},    {2878, " London"},
      {300, " and"}, {378, " The"},      {301, "*"},      {19556, "Hello"},  {17, "!"},    {339, " I"},
      {5248, "'m"},  {57, "I"},          {665, " there"}, {2055, " My"},     {506, "'s"}};
};

}  // namespace unspool
