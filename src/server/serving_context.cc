#include "server/serving_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "backend/cpu/cpu_backend.h"
#include "base/clock.h"
#include "base/log.h"
#include "grammar/xgrammar.h"
#include "json/json.h"
#include "models/causal_lm.h"
#include "models/model_config.h"
#include "runner/model_runner.h"
#include "runner/runner_memory.h"
#include "server/memory_budget.h"
#include "server/model_defaults.h"
#include "server/progress_bar.h"
#include "weights/checkpoint.h"

namespace unspool {
namespace {

Result<ModelConfig> read_model_config(const ServeOptions& options) {
  UNSPOOL_ASSIGN(const JsonDocument overrides, JsonDocument::parse(options.hf_overrides));
  const JsonValue root = overrides.root();
  return load_model_config(options.model, root.size() > 0 ? &root : nullptr);
}

// auto: what config.json says, else what all tensors have in common; float32 is served as bfloat16.
DType served_dtype(const ServeOptions& options, const ModelConfig& config, const Checkpoint* checkpoint) {
  if (options.dtype) return *options.dtype;
  if (config.dtype) return *config.dtype == DType::kFloat16 ? DType::kFloat16 : DType::kBFloat16;
  if (checkpoint == nullptr) return DType::kBFloat16;
  bool halves = false;
  for (const std::string& name : checkpoint->names()) {
    const auto tensor = checkpoint->find(name);
    if (!tensor || !is_float_weight(tensor->dtype)) continue;
    if (tensor->dtype != DType::kFloat16) return DType::kBFloat16;
    halves = true;
  }
  return halves ? DType::kFloat16 : DType::kBFloat16;
}

Result<int> served_context(const ServeOptions& options, const ModelConfig& config) {
  const ContextLength context = context_length(config.rope);
  if (!options.max_model_len) return static_cast<int>(context.standard);
  if (*options.max_model_len > context.longest) {
    return invalid_argument(fmt::format("--max-model-len {} is more than the model's context of {} tokens",
                                        *options.max_model_len, context.longest));
  }
  return static_cast<int>(*options.max_model_len);
}

// As asked for, or by what is free; there is always room for one whole sequence then.
Result<int> kv_blocks(const ServeOptions& options, int max_model_len, int64_t block_bytes, size_t weight_bytes) {
  const ControlOptions& control = options.control;
  const bool second_copy =
      !control.weight_transfer_backend.empty() && control.weight_update_mode == WeightUpdateMode::kDoubleBuffer;
  const int64_t available =
      std::max<int64_t>(available_memory_bytes() - (second_copy ? static_cast<int64_t>(weight_bytes) : 0), 0);
  int64_t blocks = 0;
  if (options.kv_cache_bytes) {
    if (*options.kv_cache_bytes > available) {
      return invalid_argument(
          fmt::format("--kv-cache-memory-bytes: expected at most the {} bytes of memory that are free, got {}",
                      available, *options.kv_cache_bytes));
    }
    blocks = std::max<int64_t>(*options.kv_cache_bytes / block_bytes, 1);
  } else {
    const int64_t sequence_blocks = (max_model_len + options.block_size - 1) / options.block_size;
    // No more than all sequences at full length can fill.
    blocks = std::clamp(default_kv_cache_bytes(available) / block_bytes, sequence_blocks,
                        sequence_blocks * options.max_num_seqs);
  }
  return static_cast<int>(std::min<int64_t>(blocks, INT32_MAX / options.block_size));  // tokens are counted in an int
}

struct Model {
  std::unique_ptr<CausalLm> network;
  Checkpoint checkpoint;
  DType dtype;
};

std::vector<DummyTensor> dummy_tensors(const WeightSet& weights) {
  std::vector<DummyTensor> out;
  for (const Parameter& parameter : weights.parameters()) out.push_back({parameter.name, parameter.shape});
  return out;
}

Result<Model> load_model(const ServeOptions& options, const ModelConfig& config, int max_model_len, Backend& backend) {
  std::optional<Checkpoint> checkpoint;
  if (!options.dummy_weights) {
    UNSPOOL_ASSIGN(checkpoint, Checkpoint::open(options.model));
  }
  ModelOptions model_options;
  model_options.dtype = served_dtype(options, config, checkpoint ? &*checkpoint : nullptr);
  model_options.precision = options.matmul_precision;
  model_options.head_precision = options.matmul_precision;
  model_options.max_tokens = options.max_num_batched_tokens;
  model_options.max_positions = max_model_len;
  model_options.max_logits_rows = logits_rows_for(config.vocab_size);
  UNSPOOL_ASSIGN(auto network, CausalLm::create(config, backend, model_options));
  if (!checkpoint) {
    UNSPOOL_ASSIGN(checkpoint,
                   Checkpoint::dummy(options.model, dummy_tensors(network->weights()), model_options.dtype));
  }
  ProgressBar bar("Loading weights", checkpoint->total_bytes(), options.progress_bar);
  UNSPOOL_TRY(network->load_weights(*checkpoint, [&](size_t bytes) { bar.add(bytes); }));
  return Model{std::move(network), std::move(*checkpoint), model_options.dtype};
}

RunnerMemoryOptions memory_options(const ControlOptions& options) {
  RunnerMemoryOptions out;
  if (!options.sleep_directory.empty()) out.sleep_directory = options.sleep_directory;
  out.keep_in_memory = options.level1_in_memory;
  out.preserve_names = options.preserve_parameter_names;
  return out;
}

// That weights could not be written is better known now than when the memory is wanted. Where nobody chose the
// directory it is no reason not to start: the checkpoint's own weights are never written.
Status check_sleep_directory(const ControlOptions& options) {
  if (!options.enable_sleep_mode || options.level1_in_memory) return {};
  const Status prepared = prepare_sleep_directory(memory_options(options).sleep_directory);
  if (prepared.ok()) return {};
  if (!options.sleep_directory.empty()) return invalid_argument("--sleep-directory: " + prepared.error().message);
  log_warning("Weights that were updated cannot go to sleep at level 1: {}", prepared.error().message);
  return {};
}

// Packs on threads of its own: they park while nothing comes, and share the cores with a generation while something
// does.
Status build_staging(ServingContext& context, WeightSet& weights) {
  const ControlOptions& options = context.options.control;
  if (options.weight_transfer_backend.empty()) return {};
  context.transfer_pool = std::make_unique<ThreadPool>(context.pool->size());
  UNSPOOL_ASSIGN(context.transfer_backend,
                 cpu::CpuBackend::create(*context.transfer_pool, context.backend->instruction_set()));
  context.staging = std::make_unique<WeightStaging>(weights, *context.transfer_backend, options.weight_update_mode);
  return {};
}

Status build_model(ServingContext& context, const ModelConfig& config, EngineConfig& engine, OperationTimes* times) {
  const ServeOptions& options = context.options;
  const char* forced_isa = std::getenv("UNSPOOL_ISA");
  UNSPOOL_ASSIGN(auto backend, cpu::CpuBackend::create(*context.pool, forced_isa == nullptr ? "" : forced_isa));
  context.instruction_set = backend->instruction_set();
  context.backend = std::move(backend);
  if (times != nullptr) context.backend = std::make_unique<TimedBackend>(std::move(context.backend), *times);
  UNSPOOL_ASSIGN(Model model, load_model(options, config, engine.max_model_len, *context.backend));
  context.dtype = torch_name(model.dtype);
  context.served_dtype = model.dtype;
  context.weight_bytes = model.network->weight_bytes();
  if (options.dummy_weights) context.dummy_tensors = dummy_tensors(model.network->weights());

  const DType kv_dtype = options.kv_cache_float32 ? DType::kFloat32 : model.dtype;
  RoutedExpertsShape routed;
  if (options.return_routed_experts) routed = routed_experts_shape(config);
  const int64_t block_bytes = kv_cache_shape(config, options.block_size, 1, kv_dtype).block_bytes() +
                              options.block_size * static_cast<int64_t>(routed.row_bytes());
  UNSPOOL_ASSIGN(const int blocks, kv_blocks(options, engine.max_model_len, block_bytes, context.weight_bytes));
  UNSPOOL_ASSIGN(auto cache,
                 context.backend->make_kv_cache(kv_cache_shape(config, options.block_size, blocks, kv_dtype)));
  context.kv_cache_bytes = blocks * block_bytes;
  engine.num_blocks = blocks;

  std::unique_ptr<RoutedExpertsStore> store;
  if (routed.layers > 0) {
    UNSPOOL_ASSIGN(store, RoutedExpertsStore::create(routed, blocks, options.block_size));
  }

  auto runner = std::make_unique<ModelRunner>(std::move(model.network), std::move(cache),
                                              logits_rows_for(config.vocab_size), std::move(store));
  UNSPOOL_TRY(build_staging(context, runner->model().weights()));
  context.memory = std::make_unique<RunnerMemory>(*runner, std::move(model.checkpoint), *context.pool,
                                                  memory_options(options.control), context.staging.get());
  context.executor = std::move(runner);
  context.sampler = std::make_unique<Sampler>(context.backend->vocab_kernels(), static_cast<int>(config.vocab_size));
  context.sampler->reserve(context.pool->size());
  return {};
}

// Optional: without it, requests that ask for structured outputs are refused, and say why.
void build_grammars(ServingContext& context) {
  ServingConfig& protocol = context.protocol;
  protocol.disable_any_whitespace = context.options.grammar.disable_any_whitespace;
  protocol.enforce_in_reasoning = context.options.grammar.enable_in_reasoning;
  if (!protocol.tokenizer) return;
  if (!protocol.tokenizer->separator().empty()) {
    protocol.no_structured_outputs = "Structured outputs need a tokenizer with a decoder: tokenizer.json has none.";
    return;
  }
  const auto load = [&]() -> Result<std::unique_ptr<GrammarBackend>> {
    UNSPOOL_ASSIGN(const auto directory, find_xgrammar(context.options.grammar.directory));
    context.grammar_directory = directory.string();
    return load_xgrammar(directory, {protocol.tokenizer, protocol.vocab_size, protocol.eos_token_id});
  };
  auto backend = load();
  if (!backend.ok()) {
    protocol.no_structured_outputs = backend.error().message;
    return;
  }
  context.grammars = std::make_unique<GrammarCompiler>(std::move(*backend), context.options.grammar.compiler);
  protocol.no_structured_outputs.clear();
}

EngineConfig engine_config(const ServeOptions& options, int max_model_len) {
  EngineConfig config;
  config.max_num_seqs = options.max_num_seqs;
  config.max_num_batched_tokens = options.max_num_batched_tokens;
  config.max_model_len = max_model_len;
  config.block_size = options.block_size;
  config.enable_prefix_caching = options.enable_prefix_caching;
  config.scheduling_policy = options.scheduling_policy;
  config.max_num_queued_reqs = options.max_num_queued_reqs;
  config.max_num_queued_tokens = options.max_num_queued_tokens;
  config.seed = options.seed;
  config.model_name = options.served_model_names.front();
  config.log_stats = options.log_stats;
  config.enable_sleep_mode = options.control.enable_sleep_mode;
  return config;
}

}  // namespace

Result<std::unique_ptr<ServingContext>> build_serving_context(const ServeOptions& options, OperationTimes* times) {
  auto context = std::make_unique<ServingContext>();
  context->started_s = monotonic_seconds();
  context->options = options;
  UNSPOOL_TRY(check_sleep_directory(options.control));
  UNSPOOL_ASSIGN(const ModelConfig config, read_model_config(options));
  if (options.return_routed_experts && !config.has_experts()) {
    return invalid_argument(fmt::format(
        "--enable-return-routed-experts: {} has no experts; the flag is for mixtures of experts", config.architecture));
  }
  UNSPOOL_ASSIGN(const int max_model_len, served_context(options, config));
  UNSPOOL_ASSIGN(context->protocol, protocol_config(options, config, max_model_len));
  context->pool = std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : allowed_cores());
  EngineConfig engine = engine_config(options, max_model_len);
  UNSPOOL_TRY(build_model(*context, config, engine, times));
  build_grammars(*context);
  context->engine = std::make_unique<Engine>(
      engine, EngineDependencies{context->executor.get(), context->sampler.get(), context->pool.get(),
                                 context->protocol.tokenizer, &context->metrics, context->memory.get(),
                                 context->grammars.get()});
  return context;
}

void log_start_summary(const ServingContext& context) {
  const ServeOptions& options = context.options;
  const int capacity = context.engine->stats().capacity_tokens;
  log_info("Model {} as {}: {}, context {} tokens, vocabulary {}", options.model, context.protocol.model_name(),
           context.dtype, context.protocol.max_model_len, context.protocol.vocab_size);
  if (options.dummy_weights) log_warning("The weights are dummies (--load-format dummy): replies are noise");
  log_info("Weights {:.0f} MB, KV cache {:.0f} MB for {} tokens, {} threads, instruction set {}",
           context.weight_bytes / 1e6, context.kv_cache_bytes / 1e6, capacity, context.pool->size(),
           context.instruction_set);
  if (capacity < context.protocol.max_model_len) {
    log_warning("The KV cache holds less than one sequence of --max-model-len {}: longer prompts will be refused",
                context.protocol.max_model_len);
  }
  if (context.grammars) {
    log_info("Structured outputs by xgrammar {} ({})", kXgrammarVersion, context.grammar_directory);
  } else if (context.protocol.tokenizer) {
    log_info("No structured outputs: {}", context.protocol.no_structured_outputs);
  }
  for (const std::string& name : options.control.always_so) {
    log_info("rl_config.{} asks for what is always so: results depend on no batch, thread count or run", name);
  }
  if (options.control.dev_routes) {
    log_warning(
        "Development routes are on: whoever reaches this port can pause the server, abort its requests and replace "
        "its weights{}",
        options.api_keys.empty()               ? ", for there is no --api-key"
        : options.control.unguarded_dev_routes ? ", for they need no API key (--unguarded-dev-routes)"
                                               : " with an API key");
  }
  for (const std::string& flag : options.ignored_flags) log_info("{} has no meaning here and is ignored", flag);
}

}  // namespace unspool
