#include "models/sliding_window.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace unspool {
namespace {

constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";
constexpr int64_t kMaxWindow = int64_t{1} << 27;

// Whether each layer slides, by layer_types; nothing where config.json has none.
Result<std::optional<std::vector<bool>>> read_layer_types(const ConfigReader& config, int64_t layers) {
  const std::optional<JsonValue> types = config.find("layer_types");
  if (!types) return std::optional<std::vector<bool>>();
  if (!types->is_array() || static_cast<int64_t>(types->size()) != layers) {
    return config.expected("layer_types", fmt::format("a list of {} names", layers), *types);
  }
  std::vector<bool> slides;
  for (const JsonValue& type : types->elements()) {
    if (type.as_string() != kFull && type.as_string() != kSliding) {
      return config.error(
          fmt::format("layer_types: unsupported {}; supported: \"{}\", \"{}\"", type.dump(), kFull, kSliding));
    }
    slides.push_back(type.as_string() == kSliding);
  }
  return std::optional(slides);
}

}  // namespace

Status read_sliding_window(const ConfigReader& config, const WindowRules& rules, ModelConfig& model) {
  // 0 is what transformers writes for Qwen2-MoE without windows.
  UNSPOOL_ASSIGN(const std::optional<int64_t> given, config.integer("sliding_window", rules.gated ? 0 : 1, kMaxWindow));
  int64_t window = config.has("sliding_window") ? given.value_or(0) : rules.by_default;
  std::string_view lacking = "sliding_window is null";
  if (rules.gated) {
    UNSPOOL_ASSIGN(const std::optional<bool> used, config.boolean("use_sliding_window"));
    if (!used.value_or(false)) {
      window = 0;
      lacking = "use_sliding_window is not true";
    }
  }
  if (window > 0 && !rules.slides && window < model.max_position_embeddings) {
    return config.error(
        fmt::format("sliding_window: expected null, got {}: {} has no windows", window, model.architecture));
  }
  UNSPOOL_ASSIGN(const auto types, read_layer_types(config, model.num_hidden_layers));
  for (int64_t i = 0; i < model.num_hidden_layers; ++i) {
    const bool by_rule = rules.slides && rules.slides(i) && (window > 0 || rules.needs_window);
    const bool slides = types ? (*types)[static_cast<size_t>(i)] : by_rule;
    if (slides != by_rule && (!rules.takes_types || !rules.slides)) {
      return config.error(fmt::format("layer_types: expected {} for layer {} of {}, got {}", by_rule ? kSliding : kFull,
                                      i, model.architecture, slides ? kSliding : kFull));
    }
    if (slides && window == 0) {
      return config.error(fmt::format("layer_types: layer {} is {}, but {}", i, kSliding, lacking));
    }
    model.layers[static_cast<size_t>(i)].window = slides ? window : 0;
  }
  return {};
}

Status read_qwen_windows(const ConfigReader& config, ModelConfig& model) {
  UNSPOOL_ASSIGN(const std::optional<int64_t> first, config.integer("max_window_layers", 0, kMaxWindow));
  const auto slides = [first = first.value_or(28)](int64_t layer) { return layer >= first; };
  return read_sliding_window(config, {.by_default = 4096, .slides = slides, .gated = true}, model);
}

}  // namespace unspool
