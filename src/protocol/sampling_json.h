// Sampling parameters as the token route takes them.
#pragma once

#include "json/json_writer.h"
#include "protocol/sampling_fields.h"

namespace unspool {

// An object that, sent to /inference/v1/generate, asks for what the fields ask for.
void write_sampling_params(JsonWriter& w, const SamplingFields& fields);

}  // namespace unspool
