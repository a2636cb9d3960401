// Conversations to engine requests: template, tools, defaults, limits.
#include <fmt/format.h>

#include <algorithm>

#include "protocol/chat_grammar.h"
#include "protocol/chat_prompt.h"
#include "protocol/chat_reply_setup.h"
#include "protocol/prepare_steps.h"
#include "protocol/prompt_tokens.h"
#include "protocol/request_body.h"

namespace unspool {
namespace {

using chat::ToolChoice;

// Calls can be asked for only where there is somebody to read them.
MaybeError check_tool_parser(const ToolFields& tools, const ChatConfig& config) {
  if (config.parses_tools()) return std::nullopt;
  switch (tools.choice) {
    case ToolChoice::kNone:
      return std::nullopt;
    case ToolChoice::kAuto:
      if (tools.choice_is_null) return std::nullopt;
      return bad_request("\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set");
    case ToolChoice::kRequired:
      return bad_request("tool_choice=\"required\" requires --tool-call-parser to be set");
    case ToolChoice::kNamed:
      break;
  }
  return bad_request(fmt::format("tool_choice=function \"{}\" requires --tool-call-parser to be set", tools.function));
}

// What is left of the context, less where the request or the server asks for less.
int64_t chat_max_tokens(const ChatRequest& request, int64_t prompt_length, const ServingConfig& config) {
  int64_t max_tokens = config.max_model_len - prompt_length;
  const auto& asked = request.sampling.max_tokens ? request.sampling.max_tokens : config.defaults.max_tokens;
  for (const auto& limit : {asked, config.defaults.hard_max_tokens}) {
    if (limit) max_tokens = std::min(max_tokens, *limit);
  }
  return max_tokens;
}

struct Conversation {
  ChatPrompt prompt;
  std::vector<int64_t> ids;
};

ApiResult<Conversation> read_conversation(const JsonValue& messages, const ChatRequest& request,
                                          const ServingConfig& config) {
  TemplateFields fields = request.chat;
  const bool no_calls = request.tools.choice == ToolChoice::kNone;
  if (no_calls && config.chat.exclude_tools_when_none) fields.tools = JsonValue();
  auto prompt = render_chat(messages, fields, config);
  if (!prompt.ok()) return prompt.error();
  auto tokens = tokenize_text(prompt->text, request, config);
  if (!tokens.ok()) return tokens.error();
  return Conversation{std::move(*prompt), std::move(tokens->ids)};
}

// What does not depend on the messages.
MaybeError check_request(const ChatRequest& request, const ServingConfig& config) {
  if (auto error = check_model_name(request.model, config)) return error;
  if (request.conversations.empty()) return bad_request("You must pass at least one conversation");
  if (auto error = check_tool_parser(request.tools, config.chat)) return error;
  if (auto error = check_request_template(request.chat, config)) return error;
  if (auto error = check_token_limits(request, config, request.max_tokens_name)) return error;
  return check_choice_count(request.conversations.size(), request.sampling.n);
}

}  // namespace

std::unique_ptr<const chat::OutputParser> output_parser(const ChatRequest& request, bool enable_thinking,
                                                        const ChatConfig& config) {
  if (config.parsers == nullptr) return nullptr;
  chat::OutputRequest output;
  output.tools = request.chat.tools;
  output.tool_choice = request.tools.choice;
  output.function_name = request.tools.function;
  output.parallel_tool_calls = request.tools.parallel;
  output.enable_thinking = enable_thinking;
  return config.parsers->for_request(output);
}

ChatReplyOptions chat_options(const ChatRequest& request, const SamplingFields& fields, const ChatConfig& config) {
  ChatReplyOptions options;
  if (fields.logprobs) {
    options.logprobs = ChatLogprobs{.top_logprobs = static_cast<int>(*fields.logprobs),
                                    .all_candidates = fields.logprob_token_ids && !fields.logprob_token_ids->empty(),
                                    .stream = request.stream};
  }
  options.return_token_ids = request.return_token_ids;
  options.return_prompt_text = request.return_prompt_text;
  options.counts_reasoning = config.parses_reasoning();
  options.hide_reasoning = !request.include_reasoning && config.parsers != nullptr;
  options.tools = request.tools;
  return options;
}

ApiResult<PreparedRequest> prepare_chat(const ChatRequest& request, const RequestHeaders& headers,
                                        const ServingConfig& config) {
  if (auto error = check_request(request, config)) return *error;
  SamplingFields fields = request.sampling;
  apply_defaults(fields, config.defaults);
  if (request.echo && !fields.prompt_logprobs) fields.prompt_logprobs = fields.logprobs.value_or(0);
  clamp_logit_bias(fields);
  constrain_to_calls(request, fields, config);
  ChatReplyOptions chat = chat_options(request, fields, config.chat);
  chat.batch = request.batch;

  PreparedRequest out;
  out.stream = request.stream;
  out.cache_salt = request.cache_salt;
  out.priority = headers.priority.value_or(request.priority);
  const std::string id = "chatcmpl-" + base_id(headers, request.request_id);
  for (const JsonValue& messages : request.conversations) {
    auto conversation = read_conversation(messages, request, config);
    if (!conversation.ok()) return conversation.error();
    ChatPrompt& prompt = conversation->prompt;
    if (chat.parser == nullptr) chat.parser = output_parser(request, prompt.enable_thinking, config.chat);
    if (chat.parser != nullptr && chat.parser->keeps_special_tokens()) fields.skip_special_tokens = false;
    fields.max_tokens = chat_max_tokens(request, static_cast<int64_t>(conversation->ids.size()), config);
    if (auto error = check_sampling_ranges(fields, config)) return *error;
    free_reasoning(request, conversation->ids, prompt.enable_thinking, fields, config);
    add_prompt(out, request.batch ? fmt::format("{}_{}", id, out.prompts.size()) : id, conversation->ids, fields,
               headers, config);
    chat.conversations.push_back({std::move(prompt.role), request.echo ? std::move(prompt.last_content) : "",
                                  request.return_prompt_text ? std::move(prompt.text) : ""});
  }
  if (out.lazy_error) return out;
  out.sampling = fields;
  out.assembler = std::make_unique<ChatReply>(openai_reply_options(out, id, request, fields, config), std::move(chat),
                                              token_text(request, config));
  return out;
}

}  // namespace unspool
