// A request as it enters the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "request/outputs.h"
#include "request/sampling_params.h"

namespace unspool {

// Receives a request's outputs on the engine thread, in order, until one is `finished`; must return quickly and not
// throw.
using OutputSink = std::function<void(RequestOutput output)>;

struct EngineRequest {
  std::string external_id;  // what clients abort by ("cmpl-<base>-<prompt index>"); may repeat
  std::vector<int32_t> prompt_token_ids;
  SamplingParams params;
  std::string cache_salt;  // isolates the prefix cache
  int64_t priority = 0;    // lower first under --scheduling-policy priority
  double arrival_s = 0.0;  // monotonic_seconds()
  OutputSink sink;
};

}  // namespace unspool
