// What grammars a chat request's output must follow beside those it asks for itself.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/chat_request.h"
#include "protocol/sampling_fields.h"
#include "protocol/serving_config.h"

namespace unspool {

// Calls that must be made, or be made in a certain form.
void constrain_to_calls(const ChatRequest& request, SamplingFields& fields, const ServingConfig& config);

// Reasoning is free: what ends it there.
void free_reasoning(const ChatRequest& request, const std::vector<int64_t>& prompt_ids, bool enable_thinking,
                    SamplingFields& fields, const ServingConfig& config);

}  // namespace unspool
