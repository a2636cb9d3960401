#include "server/chat_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/file.h"
#include "base/log.h"
#include "chat/template_files.h"

namespace unspool {
namespace {

constexpr std::string_view kNoTemplate =
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the "
    "tokenizer does not define one.";

ChatConfig::Template parse(const std::string& source, ChatConfig& config) {
  auto parsed = chat::ChatTemplate::parse(source, config.special_tokens, config.content_format);
  if (parsed.ok()) return std::move(*parsed);
  config.no_template = parsed.error().describe();
  return nullptr;
}

// A name of one of the model's templates, a file, or else the template itself, which always has a bracket or a line
// break in it.
Result<std::string> read_given_template(const std::string& given, const chat::TemplateFiles& files) {
  if (const std::string* named = files.find(given)) return *named;
  if (file_exists(given)) return read_file(given);
  if (given.find_first_of("{}\n") != std::string::npos) return given;
  return invalid_argument(fmt::format(
      "--chat-template: the supplied chat template ({}) looks like a file path, but there is no such file", given));
}

Status read_default_kwargs(const ChatOptions& options, ChatConfig& config) {
  UNSPOOL_ASSIGN(JsonDocument kwargs, JsonDocument::parse(options.default_kwargs));
  for (const char* name : {"chat_template", "tokenize"}) {
    if (kwargs.root().find(name)) {
      return invalid_argument(fmt::format("--default-chat-template-kwargs: {} is no variable of a template", name));
    }
  }
  config.default_kwargs = std::make_shared<const JsonDocument>(std::move(kwargs));
  return {};
}

// The one that everybody gets, where the server was told so.
Status use_given_template(const std::string& given, const chat::TemplateFiles& files, ChatConfig& config) {
  UNSPOOL_ASSIGN(const std::string source, read_given_template(given, files));
  config.chat_template = config.tool_template = parse(source, config);
  if (config.chat_template == nullptr) return invalid_argument("--chat-template: " + config.no_template);
  return {};
}

void use_model_templates(const chat::TemplateFiles& files, ChatConfig& config) {
  const auto named = [&](const std::string* source) -> ChatConfig::Template {
    for (const auto& [name, parsed] : config.named_templates) {
      if (files.find(name) == source) return parsed;
    }
    return nullptr;
  };
  for (const bool has_tools : {false, true}) {
    const auto chosen = files.choose(has_tools);
    if (!chosen.ok()) {
      config.no_template = chosen.error().message;
    } else if (*chosen != nullptr) {
      (has_tools ? config.tool_template : config.chat_template) = named(*chosen);
    }
  }
  if (config.chat_template != nullptr) return;
  if (config.no_template.empty()) {
    config.no_template = kNoTemplate;
  } else {
    log_warning("Chat needs --chat-template: {}", config.no_template);
  }
}

Status load_parsers(const ChatOptions& options, const Tokenizer* tokenizer, ChatConfig& config) {
  if (options.tool_call_parser.empty() && options.reasoning_parser.empty()) return {};
  const auto token_id = [tokenizer](std::string_view text) -> std::optional<int32_t> {
    const int32_t id = tokenizer == nullptr ? -1 : tokenizer->piece_to_id(text);
    return id < 0 ? std::nullopt : std::optional<int32_t>(id);
  };
  UNSPOOL_ASSIGN(config.parsers, chat::OutputParsers::create(options.tool_call_parser, options.reasoning_parser,
                                                             token_id, options.strict_tool_calling));
  return {};
}

}  // namespace

Result<ChatConfig> load_chat_config(const ChatOptions& options, const std::string& directory,
                                    const Tokenizer* tokenizer) {
  ChatConfig config;
  config.content_format = options.content_format;
  config.trust_request_template = options.trust_request_template;
  config.trust_request_media = options.trust_request_media;
  config.response_role = options.response_role;
  config.exclude_tools_when_none = options.exclude_tools_when_none;
  config.tool_strict_level = options.tool_strict_level;
  UNSPOOL_TRY(read_default_kwargs(options, config));
  UNSPOOL_TRY(load_parsers(options, tokenizer, config));
  auto read = chat::read_template_files(directory);
  if (!read.ok()) {
    log_warning("Chat templates of the model: {}", read.error().message);
    config.no_template = read.error().message;
    read = chat::TemplateFiles();
  }
  const chat::TemplateFiles& files = *read;
  config.special_tokens = files.special_tokens;
  for (const auto& [name, source] : files.templates) {
    if (auto parsed = parse(source, config)) config.named_templates.emplace_back(name, std::move(parsed));
  }
  if (!options.chat_template.empty()) {
    UNSPOOL_TRY(use_given_template(options.chat_template, files, config));
  } else {
    use_model_templates(files, config);
  }
  return config;
}

}  // namespace unspool
