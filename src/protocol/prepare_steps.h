// The steps that make a parsed request one for the engine, as far as several routes take them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/openai_request.h"
#include "protocol/prepared_request.h"
#include "protocol/reply_assembler.h"
#include "protocol/serving_config.h"
#include "protocol/token_text.h"

namespace unspool {

// A random one where neither header nor body names the request.
std::string base_id(const RequestHeaders& headers, const std::string& body_id);

void apply_defaults(SamplingFields& fields, const DefaultSampling& defaults);
// As the OpenAI interface has it; the token route takes any number.
void clamp_logit_bias(SamplingFields& fields);

MaybeError check_choice_count(size_t prompts, int64_t n);

// Adds one prompt, or notes why its engine would refuse it; the first reason stays.
void add_prompt(PreparedRequest& out, std::string external_id, const std::vector<int64_t>& ids,
                const SamplingFields& fields, const RequestHeaders& headers, const ServingConfig& config);

ReplyOptions reply_options(const PreparedRequest& prepared, std::string id, int64_t n, const StreamOptions& stream,
                           const SamplingFields& fields, const ServingConfig& config);
ReplyOptions openai_reply_options(const PreparedRequest& prepared, std::string id, const OpenAiRequest& request,
                                  const SamplingFields& fields, const ServingConfig& config);
TokenText token_text(const OpenAiRequest& request, const ServingConfig& config);

}  // namespace unspool
