#include "server/server_info.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "json/json_writer.h"
#include "protocol/python_text.h"
#include "server/version.h"

namespace unspool {
namespace {

// One field of a section; the value is JSON in one form and Python's repr in the other.
struct Field {
  std::string_view name;
  std::string json;
  std::string text;
};
struct Section {
  std::string_view name;
  std::vector<Field> fields;  // none: null, what it configures is not there
};

Field text_field(std::string_view name, const std::string& value) {
  JsonWriter w;
  w.string(value);
  return {name, std::move(w).str(), python::repr(std::string_view(value))};
}
Field number_field(std::string_view name, int64_t value) {
  return {name, std::to_string(value), std::to_string(value)};
}
Field flag_field(std::string_view name, bool value) {
  return {name, value ? "true" : "false", value ? "True" : "False"};
}

std::vector<Field> transfer_fields(const ControlOptions& options) {
  if (options.weight_transfer_backend.empty()) return {};
  return {text_field("backend", options.weight_transfer_backend)};
}

// What clients read, and what tells two servers apart. What is not configured is null.
std::vector<Section> sections(const ServingContext& context) {
  const ServeOptions& options = context.options;
  const EngineConfig& engine = context.engine->config();
  return {
      {"model_config",
       {text_field("model", options.model),
        text_field("tokenizer", options.tokenizer.empty() ? options.model : options.tokenizer),
        text_field("served_model_name", options.served_model_names.front()),
        // The reference prints the type itself, without quotes.
        {"dtype", fmt::format("\"torch.{}\"", context.dtype), "torch." + context.dtype},
        number_field("max_model_len", context.protocol.max_model_len),
        number_field("seed", options.seed),
        text_field("logprobs_mode", to_string(options.logprobs_mode)),
        number_field("max_logprobs", options.max_logprobs),
        flag_field("enable_sleep_mode", options.control.enable_sleep_mode)}},
      {"parallel_config",
       {number_field("tensor_parallel_size", 1), number_field("pipeline_parallel_size", 1),
        number_field("data_parallel_size", 1), number_field("data_parallel_rank", 0),
        number_field("prefill_context_parallel_size", 1), number_field("decode_context_parallel_size", 1),
        number_field("world_size", 1), flag_field("enable_expert_parallel", false)}},
      {"cache_config",
       {number_field("block_size", engine.block_size), number_field("num_gpu_blocks", engine.num_blocks),
        flag_field("enable_prefix_caching", engine.enable_prefix_caching),
        text_field("cache_dtype", options.kv_cache_float32 ? "float32" : "auto")}},
      {"scheduler_config",
       {number_field("max_num_seqs", engine.max_num_seqs),
        number_field("max_num_batched_tokens", engine.max_num_batched_tokens),
        text_field("policy", engine.scheduling_policy == SchedulingPolicy::kPriority ? "priority" : "fcfs")}},
      {"weight_transfer_config", transfer_fields(options.control)},
      {"lora_config", {}},
      {"speculative_config", {}},
  };
}

std::string config_object(const std::vector<Section>& sections) {
  JsonWriter w;
  w.begin_object();
  for (const Section& section : sections) {
    w.key(section.name);
    if (section.fields.empty()) {
      w.null();
      continue;
    }
    w.begin_object();
    for (const Field& field : section.fields) {
      w.key(field.name);
      w.raw(field.json);
    }
    w.end_object();
  }
  w.end_object();
  return std::move(w).str();
}

std::string config_text(const std::vector<Section>& sections) {
  std::string out;
  const auto add = [&](std::string_view name, std::string_view value) {
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", name, value);
  };
  for (const Section& section : sections) {
    if (section.fields.empty()) add(section.name, "None");
    for (const Field& field : section.fields) add(field.name, field.text);
  }
  return out;
}

// VLLM_* and UNSPOOL_*, but nothing that may be a secret.
void write_variables(JsonWriter& w, const char* const* environment) {
  w.begin_object();
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with("VLLM_") && !name.starts_with("UNSPOOL_")) continue;
    if (name.find("KEY") != name.npos || name.find("TOKEN") != name.npos || name.size() == entry.size()) continue;
    w.key(name);
    w.string(entry.substr(name.size() + 1));
  }
  w.end_object();
}

}  // namespace

std::string server_info_body(const ServingContext& context, bool as_json, const char* const* environment) {
  const std::vector<Section> config = sections(context);
  JsonWriter w;
  w.begin_object();
  w.key("vllm_config");
  if (as_json) {
    w.raw(config_object(config));
  } else {
    w.string(config_text(config));
  }
  w.key("vllm_env");
  write_variables(w, environment);
  w.key("system_env");
  w.begin_object();
  w.key("unspool_version");
  w.string(version());
  w.key("instruction_set");
  w.string(context.instruction_set);
  w.key("threads");
  w.integer(context.pool->size());
  w.end_object();
  w.end_object();
  return std::move(w).str();
}

}  // namespace unspool
