#include "fixture.h"

#include "json/json_writer.h"
#include "tokenizer/byte_level.h"

namespace unspool {

std::string byte_model(const std::string& more_vocab, const std::string& merges) {
  JsonWriter vocab;
  vocab.begin_object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string piece;
    append_byte_level(piece, std::string(1, static_cast<char>(byte)));
    vocab.key(piece);
    vocab.integer(byte);
  }
  vocab.end_object();
  std::string json = std::move(vocab).str();
  json.insert(json.size() - 1, more_vocab);
  return R"({"type":"BPE","vocab":)" + json + R"(,"merges":[)" + merges + "]}";
}

}  // namespace unspool
