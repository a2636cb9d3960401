// What weight transfer answers where it does not do what it was asked for.
#pragma once

#include <string_view>

#include "base/result.h"
#include "protocol/api_error.h"
#include "protocol/control_reply.h"

namespace unspool {

// What is out of order fails in the reference's worker, and in its words.
inline ApiError transfer_error(const Error& error) {
  return error.kind == ErrorKind::kInternal ? worker_error(error.message) : from_engine_error(error);
}

inline constexpr std::string_view kNoDraftModel =
    "start_draft_weight_update called, but there is no draft model: speculative decoding is not served.";

}  // namespace unspool
