// Any JSON as config.json (with and without itself as overrides) and as generation_config.json: an error, or a config
// whose numbers hold together.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "models/generation_config.h"
#include "models/model_config.h"
#include "models/rope_frequencies.h"

namespace {

// Whatever passes can be served: frequencies are numbers at every length that the context allows.
void check(const unspool::RopeConfig& rope, int64_t head_dim) {
  if (!(rope.theta >= 1) || rope.rotary_dim < 1 || rope.rotary_dim > head_dim) std::abort();
  if (!(rope.attention_factor >= 0) || !std::isfinite(rope.attention_factor)) std::abort();
  const unspool::ContextLength context = unspool::context_length(rope);
  if (context.standard < 1 || context.standard > context.longest || context.longest > 1 << 22) std::abort();
  for (const int64_t length : {int64_t{1}, context.standard, context.longest}) {
    const auto frequencies = unspool::rope_frequencies(rope, length);
    if (static_cast<int64_t>(frequencies.size()) != rope.num_frequencies()) std::abort();
    for (const float frequency : frequencies)
      if (!std::isfinite(frequency) || frequency < 0) std::abort();
  }
}

void check(const unspool::ModelConfig& config) {
  if (config.vocab_size < 1 || config.hidden_size < 1 || config.num_hidden_layers < 1) std::abort();
  if (config.num_attention_heads % config.num_key_value_heads != 0) std::abort();
  if (config.head_dim < 2 || config.head_dim % 2 != 0) std::abort();
  if (!(config.rms_norm_eps > 0)) std::abort();
  check(config.rope, config.head_dim);
  if (config.local_rope) check(*config.local_rope, config.head_dim);
  if (static_cast<int64_t>(config.layers.size()) != config.num_hidden_layers) std::abort();
  for (const int64_t id : config.eos_token_ids) {
    if (id < 0 || id >= config.vocab_size) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace unspool;
  const auto document = JsonDocument::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  const JsonValue root = document->root();
  const JsonValue inner = root["overrides"];
  for (const JsonValue* overrides : {static_cast<const JsonValue*>(nullptr), &inner, &root}) {
    const auto config = parse_model_config(root, overrides);
    if (config.ok()) check(*config);
    if (!config.ok() && config.error().message.empty()) std::abort();
  }
  const auto generation = parse_generation_config(root, 1000);
  if (!generation.ok() && generation.error().message.empty()) std::abort();
  return 0;
}
