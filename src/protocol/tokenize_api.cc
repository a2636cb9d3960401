#include "protocol/tokenize_api.h"

#include <fmt/format.h>

#include <limits>

#include "base/clock.h"
#include "base/ids.h"
#include "json/json_writer.h"
#include "protocol/chat_messages.h"
#include "protocol/chat_prompt.h"
#include "protocol/field_reader.h"
#include "protocol/prompt_tokens.h"
#include "protocol/request_body.h"
#include "protocol/wire_values.h"

namespace unspool {
namespace {

ApiError no_tokenizer() {
  return bad_request("This server does not load a tokenizer (--tokens-only or --skip-tokenizer-init).");
}

// A prompt's text, or what a conversation becomes; errors name what both forms lack where neither is there.
void read_tokenize_prompt(FieldReader& reader, std::string& prompt) {
  if (reader.find("prompt")) {
    reader.read("prompt", prompt);
  } else {
    reader.missing("prompt");
  }
  if (!reader.errors().empty()) reader.missing("messages");
}

std::string tokens_body(const std::vector<int32_t>& ids, bool with_pieces, const ServingConfig& config) {
  JsonWriter w;
  w.begin_object();
  w.key("count");
  w.integer(static_cast<int64_t>(ids.size()));
  w.key("max_model_len");
  w.integer(config.max_model_len);
  w.key("tokens");
  write_token_ids(w, ids);
  w.key("token_strs");
  if (with_pieces) {
    w.begin_array();
    for (const int32_t id : ids) w.string(config.tokenizer->id_to_piece(id));
    w.end_array();
  } else {
    w.null();
  }
  w.end_object();
  return std::move(w).str();
}

// As a chat request's, with its template; tools are always shown to it, for nothing is to be called.
ApiResult<std::string> tokenize_messages(const JsonValue& body, const ServingConfig& config) {
  if (auto error = check_generation_prompt(body)) return *error;
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  std::optional<std::string> model;
  TemplateFields fields;
  bool add_special_tokens = false;  // a template puts its special tokens itself
  std::optional<bool> return_token_strs;
  reader.read("model", model);
  check_messages(body["messages"], reader.loc("messages"), errors);
  reader.read("return_token_strs", return_token_strs);
  reader.read("add_special_tokens", add_special_tokens);
  read_template_fields(reader, fields);
  check_tools(body["tools"], reader.loc("tools"), errors);
  fields.tools = body["tools"];
  if (!errors.empty()) return errors.to_api_error();
  if (auto error = check_model_name(model, config)) return *error;
  if (auto error = check_media_settings(body, config)) return *error;
  if (!config.tokenizer) return no_tokenizer();
  const auto prompt = render_chat(body["messages"], fields, config);
  if (!prompt.ok()) return prompt.error();
  return tokens_body(config.tokenizer->encode(prompt->text, add_special_tokens), return_token_strs.value_or(false),
                     config);
}

}  // namespace

ApiResult<std::string> tokenize(const JsonValue& body, const ServingConfig& config) {
  if (auto error = require_object(body)) return *error;
  if (!body["prompt"].is_string() && body.find("messages")) return tokenize_messages(body, config);
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  std::optional<std::string> model;
  std::string prompt;
  bool add_special_tokens = true;
  std::optional<bool> return_token_strs;
  reader.read("model", model);
  read_tokenize_prompt(reader, prompt);
  reader.read("add_special_tokens", add_special_tokens);
  reader.read("return_token_strs", return_token_strs);
  if (!errors.empty()) return errors.to_api_error();
  if (auto error = check_model_name(model, config)) return *error;
  if (!config.tokenizer) return no_tokenizer();

  return tokens_body(config.tokenizer->encode(prompt, add_special_tokens), return_token_strs.value_or(false), config);
}

ApiResult<std::string> detokenize(const JsonValue& body, const ServingConfig& config) {
  if (auto error = require_object(body)) return *error;
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  std::optional<std::string> model;
  reader.read("model", model);
  std::vector<int64_t> tokens;
  if (const auto value = reader.find("tokens")) {
    if (auto ids = coerce_int_list(*value, reader.loc("tokens"), errors, {.ge = 0})) tokens = std::move(*ids);
  } else {
    reader.missing("tokens");
  }
  if (!errors.empty()) return errors.to_api_error();
  if (auto error = check_model_name(model, config)) return *error;
  if (!config.tokenizer) return no_tokenizer();
  for (const int64_t id : tokens) {
    const int64_t largest = std::max<int64_t>(config.tokenizer->vocab_size(), config.vocab_size) - 1;
    if (id > largest) return bad_request(fmt::format("Token id {} is out of vocabulary", id));
  }
  JsonWriter w;
  w.begin_object();
  w.key("prompt");
  w.string(config.tokenizer->decode(to_token_ids(tokens), false));
  w.end_object();
  return std::move(w).str();
}

ApiResult<std::vector<std::string>> parse_abort_request(std::string_view body) {
  JsonSyntaxError syntax;
  const auto document = JsonDocument::parse(body, &syntax);
  if (!document.ok()) return framework_error(json_decode_error(body, syntax));
  const JsonValue ids = document->root()["request_ids"];
  if (ids.is_null()) return framework_error("Missing 'request_ids' in request body");
  std::vector<std::string> out;
  if (const auto one = ids.as_string()) out.emplace_back(*one);
  for (const JsonValue& id : ids.elements()) {
    if (const auto text = id.as_string()) out.emplace_back(*text);
  }
  return out;
}

std::string models_body(const ServingConfig& config) {
  JsonWriter w;
  const auto flag = [&](const char* key, bool value) {
    w.key(key);
    w.boolean(value);
  };
  w.begin_object();
  w.key("object");
  w.string("list");
  w.key("data");
  w.begin_array();
  for (const std::string& name : config.served_model_names) {
    w.begin_object();
    w.key("id");
    w.string(name);
    w.key("object");
    w.string("model");
    w.key("created");
    w.integer(unix_seconds());
    w.key("owned_by");
    w.string("vllm");
    w.key("root");
    w.string(config.model_root);
    w.key("parent");
    w.null();
    w.key("max_model_len");
    w.integer(config.max_model_len);
    w.key("permission");
    w.begin_array();
    w.begin_object();
    w.key("id");
    w.string("modelperm-" + random_hex(16));
    w.key("object");
    w.string("model_permission");
    w.key("created");
    w.integer(unix_seconds());
    flag("allow_create_engine", false);
    flag("allow_sampling", true);
    flag("allow_logprobs", true);
    flag("allow_search_indices", false);
    flag("allow_view", true);
    flag("allow_fine_tuning", false);
    w.key("organization");
    w.string("*");
    w.key("group");
    w.null();
    flag("is_blocking", false);
    w.end_object();
    w.end_array();
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return std::move(w).str();
}

}  // namespace unspool
