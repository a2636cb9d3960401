// Bytes as the body of a chat request, and of the routes around it: each is answered or refused, never thrown out of,
// and what is accepted has a prompt within the context.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "protocol/derender_api.h"
#include "protocol/prepared_request.h"
#include "protocol/render_api.h"
#include "protocol/tokenize_api.h"
#include "tokenizer/byte_level.h"

namespace {

using namespace unspool;

// All single bytes, and two tokens that a template writes.
std::shared_ptr<const Tokenizer> byte_tokenizer() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string piece;
    append_byte_level(piece, std::string(1, static_cast<char>(byte)));
    if (piece == "\"" || piece == "\\") piece.insert(0, "\\");
    vocab += "\"" + piece + "\":" + std::to_string(byte) + (byte < 255 ? "," : "");
  }
  const auto added = [](int id, const std::string& content) {
    return R"({"id":)" + std::to_string(id) + R"(,"content":")" + content +
           R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
  };
  return Tokenizer::from_json(R"({"model":{"type":"BPE","vocab":{)" + vocab +
                              R"(},"merges":[]},"decoder":{"type":"ByteLevel"},)"
                              R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
                              R"("normalizer":null,"added_tokens":[)" +
                              added(256, "<think>") + "," + added(257, "</think>") + "]}")
      .value();
}

ServingConfig make_config() {
  ServingConfig config;
  config.served_model_names = {"m"};
  config.max_model_len = 512;
  config.vocab_size = 258;
  config.tokenizer = byte_tokenizer();
  config.chat.chat_template = config.chat.tool_template = std::move(
      *chat::ChatTemplate::parse("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}{{ tools }}"));
  config.chat.trust_request_template = true;
  const auto token_id = [&](std::string_view text) -> std::optional<int32_t> {
    const int32_t id = config.tokenizer->piece_to_id(text);
    return id < 0 ? std::nullopt : std::optional<int32_t>(id);
  };
  config.chat.parsers = chat::OutputParsers::create("hermes", "qwen3", token_id).value();
  return config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ServingConfig config = make_config();
  const auto document = JsonDocument::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!document.ok()) return 0;
  const JsonValue body = document->root();
  for (const bool batch : {false, true}) {
    const auto request = parse_chat_request(body, config, batch);
    if (!request.ok()) continue;
    const auto prepared = prepare_chat(*request, {}, config);
    if (!prepared.ok() || prepared->lazy_error) continue;
    for (const PreparedPrompt& prompt : prepared->prompts) {
      UNSPOOL_CHECK(!prompt.token_ids.empty() && prompt.token_ids.size() < 512);
      UNSPOOL_CHECK(prompt.params.max_tokens >= 1);
    }
  }
  (void)render_chat_request(body, {}, config);
  (void)render_completion_request(body, {}, config);
  (void)derender_chat(body, config);
  (void)derender_completion(body, config);
  (void)tokenize(body, config);
  return 0;
}
