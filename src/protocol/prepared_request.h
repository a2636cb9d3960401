// A request ready for the engine, and what will put its reply together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/chat_request.h"
#include "protocol/completion_request.h"
#include "protocol/generate_request.h"
#include "protocol/reply_assembler.h"
#include "protocol/serving_config.h"
#include "request/sampling_params.h"

namespace unspool {

// What the headers of a request say.
struct RequestHeaders {
  std::optional<std::string> request_id;      // X-Request-Id
  std::optional<int64_t> data_parallel_rank;  // X-data-parallel-rank, where it is a number
  std::optional<int64_t> priority;            // X-Vllm-Priority, likewise
};

struct PreparedPrompt {
  std::string external_id;  // what clients abort by
  std::vector<int32_t> token_ids;
  SamplingParams params;
};

struct PreparedRequest {
  std::vector<PreparedPrompt> prompts;  // one engine request each
  std::string cache_salt;
  int64_t priority = 0;
  bool stream = false;
  SamplingFields sampling;  // as asked for, with the server's defaults; max_tokens is each prompt's own
  // Set where the reference would notice only within its engine: a stream has begun by then and ends with this error.
  MaybeError lazy_error;
  std::unique_ptr<ReplyAssembler> assembler;  // empty with a lazy error
};

ApiResult<PreparedRequest> prepare_completion(const CompletionRequest& request, const RequestHeaders& headers,
                                              const ServingConfig& config);
ApiResult<PreparedRequest> prepare_chat(const ChatRequest& request, const RequestHeaders& headers,
                                        const ServingConfig& config);
ApiResult<PreparedRequest> prepare_generate(const GenerateRequest& request, const RequestHeaders& headers,
                                            const ServingConfig& config);

}  // namespace unspool
