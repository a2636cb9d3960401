#include "protocol/prompt_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "protocol/python_text.h"

namespace unspool {
namespace {

// How many tokens truncate_prompt_tokens leaves; -1 keeps one for the answer where there is to be one.
std::optional<int64_t> tokens_to_keep(const OpenAiRequest& request, const ServingConfig& config) {
  if (!request.truncate_prompt_tokens) return std::nullopt;
  if (*request.truncate_prompt_tokens >= 0) return request.truncate_prompt_tokens;
  return request.sampling.max_tokens == 0 ? config.max_model_len : std::max(0, config.max_model_len - 1);
}

void truncate(std::vector<int64_t>& ids, const OpenAiRequest& request, const ServingConfig& config) {
  const auto keep = tokens_to_keep(request, config);
  if (!keep || *keep >= static_cast<int64_t>(ids.size())) return;
  if (request.truncation_side == "right") {
    ids.resize(*keep);
  } else {
    ids.erase(ids.begin(), ids.end() - *keep);
  }
}

MaybeError check_text_length(std::string_view text, const OpenAiRequest& request, const ServingConfig& config) {
  if (request.truncate_prompt_tokens) return std::nullopt;
  const int64_t limit = int64_t{config.max_model_len} * config.tokenizer->max_piece_chars();
  // Bytes bound characters, which spares counting them in all but the longest texts.
  if (static_cast<int64_t>(text.size()) <= limit) return std::nullopt;
  const int64_t characters = python::length(text);
  if (characters <= limit) return std::nullopt;
  return invalid_parameter(
      fmt::format(
          "This model's maximum context length is {} tokens. However, your prompt contains {} characters (more than "
          "{} characters, which is the upper bound for {} input tokens). Please reduce the length of the input "
          "prompt.",
          config.max_model_len, characters, limit, config.max_model_len),
      "input_text", std::to_string(characters));
}

MaybeError check_token_count(int64_t count, const ServingConfig& config) {
  if (count <= config.max_model_len) return std::nullopt;
  return invalid_parameter(
      fmt::format(
          "This model's maximum context length is {} tokens. However, your prompt contains {}{} input tokens, which "
          "exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
          config.max_model_len, count == config.max_model_len + 1 ? "at least " : "", count),
      "input_tokens", std::to_string(count));
}

// A text that is cut by tokens anyway is cut by characters first where its side is known, which bounds the work.
std::string_view bounded_text(std::string_view text, const OpenAiRequest& request, const ServingConfig& config) {
  if (!request.truncate_prompt_tokens || !request.truncation_side) return text;
  const int64_t limit = int64_t{config.max_model_len} * config.tokenizer->max_piece_chars();
  return *request.truncation_side == "left" ? python::last_characters(text, limit)
                                            : python::first_characters(text, limit);
}

}  // namespace

MaybeError check_token_limits(const OpenAiRequest& request, const ServingConfig& config, const char* max_tokens_name) {
  const int64_t max_tokens = request.sampling.max_tokens.value_or(0);
  if (max_tokens > config.max_model_len) {
    return invalid_parameter(
        fmt::format("{}={} cannot be greater than max_model_len={}. Please request fewer output tokens.",
                    max_tokens_name, max_tokens, config.max_model_len),
        max_tokens_name, std::to_string(max_tokens));
  }
  if (request.truncate_prompt_tokens.value_or(0) > config.max_model_len) {
    return invalid_parameter(
        fmt::format("truncate_prompt_tokens={} cannot be greater than max_model_len = {}. Please request a smaller "
                    "truncation size.",
                    *request.truncate_prompt_tokens, config.max_model_len),
        "truncate_prompt_tokens", std::to_string(*request.truncate_prompt_tokens));
  }
  return std::nullopt;
}

ApiResult<PromptTokens> tokenize_text(const std::string& text, const OpenAiRequest& request,
                                      const ServingConfig& config) {
  if (!config.tokenizer) {
    return bad_request(
        "This server does not load a tokenizer (--tokens-only or --skip-tokenizer-init): send token ids.");
  }
  if (auto error = check_text_length(text, request, config)) return *error;
  const auto ids = config.tokenizer->encode(bounded_text(text, request, config), request.add_special_tokens);
  PromptTokens out{request.echo ? text : std::string(), std::vector<int64_t>(ids.begin(), ids.end())};
  truncate(out.ids, request, config);
  // The reference stops counting one past the limit.
  const auto count = std::min<int64_t>(static_cast<int64_t>(out.ids.size()), config.max_model_len + int64_t{1});
  if (auto error = check_token_count(count, config)) return *error;
  return out;
}

ApiResult<PromptTokens> tokenize_prompt(const TextOrIds& prompt, const CompletionRequest& request,
                                        const ServingConfig& config) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return tokenize_text(*text, request, config);
  PromptTokens out;
  out.ids = std::get<std::vector<int64_t>>(prompt);
  truncate(out.ids, request, config);
  if (auto error = check_token_count(static_cast<int64_t>(out.ids.size()), config)) return *error;
  if (request.echo && !request.return_token_ids && config.tokenizer) {
    out.text = config.tokenizer->decode(to_token_ids(out.ids), false);
  }
  return out;
}

std::vector<int32_t> to_token_ids(const std::vector<int64_t>& ids) {
  std::vector<int32_t> out;
  out.reserve(ids.size());
  for (const int64_t id : ids) {
    out.push_back(id >= 0 && id <= std::numeric_limits<int32_t>::max() ? static_cast<int32_t>(id) : -1);
  }
  return out;
}

}  // namespace unspool
