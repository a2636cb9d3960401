#include "weights/tensor_loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "weights/quote.h"

namespace unspool {
namespace {

constexpr size_t kMaxListed = 10;

// Tables that a model computes from its config. Old exporters saved them; what they hold says nothing new.
bool is_derived_buffer(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq");
}

bool same_tensor(const CheckpointTensor& a, const CheckpointTensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  return a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

}  // namespace

WeightLoader::WeightLoader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

Result<CheckpointTensor> WeightLoader::take(std::string_view name, Shape expected) {
  const std::optional<CheckpointTensor> tensor = checkpoint_.find(name);
  if (!tensor) {
    return invalid_argument(fmt::format("{}: tensor {} is missing; expected it with shape {}", checkpoint_.dir(),
                                        quote_name(name), expected.to_string()));
  }
  if (tensor->shape != expected) {
    return invalid_argument(fmt::format("{}: tensor {}: expected shape {}, got {}", checkpoint_.dir(), quote_name(name),
                                        expected.to_string(), tensor->shape.to_string()));
  }
  if (!is_float_weight(tensor->dtype)) {
    return invalid_argument(fmt::format("{}: tensor {}: expected dtype F32, BF16 or F16, got {}", checkpoint_.dir(),
                                        quote_name(name), safetensors_name(tensor->dtype)));
  }
  UNSPOOL_CHECK(taken_.emplace(name).second, "tensor {} was taken twice", name);
  return *tensor;
}

bool WeightLoader::has(std::string_view name) const {
  return checkpoint_.find(name).has_value();
}

void WeightLoader::accept_tied(std::string_view name, std::string_view source) {
  const std::optional<CheckpointTensor> tied = checkpoint_.find(name);
  if (!tied) return;
  taken_.emplace(name);
  const std::optional<CheckpointTensor> original = checkpoint_.find(source);
  if (!original || !same_tensor(*tied, *original)) {
    log_warning(
        "{}: the config ties {} to {}, but the checkpoint has another tensor there; {} is served in both places",
        checkpoint_.dir(), name, source, source);
  }
}

Status WeightLoader::finish() const {
  std::vector<std::string> surplus;
  size_t count = 0;
  for (const std::string& name : checkpoint_.names()) {
    if (taken_.contains(name) || is_derived_buffer(name)) continue;
    if (++count <= kMaxListed) surplus.push_back(quote_name(name));
  }
  if (count == 0) return {};
  return invalid_argument(fmt::format("{}: {} tensor{} that the model does not have: {}{}", checkpoint_.dir(), count,
                                      count == 1 ? "" : "s", fmt::join(surplus, ", "),
                                      count > kMaxListed ? fmt::format(" and {} more", count - kMaxListed) : ""));
}

}  // namespace unspool
