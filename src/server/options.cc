#include "server/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "protocol/python_text.h"
#include "protocol/serving_config.h"
#include "server/flag_table.h"
#include "server/option_reader.h"

namespace unspool {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int>::max();
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

bool is_neutral(const FlagSpec& flag, const std::string& value) {
  if (flag.kind == FlagKind::kText && value.empty()) return true;
  std::string_view left = flag.neutral;
  while (!left.empty()) {
    const size_t bar = std::min(left.find('|'), left.size());
    if (left.substr(0, bar) == value) return true;
    left.remove_prefix(std::min(bar + 1, left.size()));
  }
  return false;
}

// Flags that are not served end the start; those that mean nothing are noted.
Status sort_out(const FlagValues& values, ServeOptions& out) {
  for (const std::string& name : values.names()) {
    const FlagSpec& flag = *find_flag(name);
    if (flag.support == FlagSupport::kIgnored) out.ignored_flags.push_back("--" + name);
    if (flag.support != FlagSupport::kRefused) continue;
    const auto words = values.texts(name);
    if (std::all_of(words.begin(), words.end(), [&](const std::string& word) { return is_neutral(flag, word); }))
      continue;
    return invalid_argument(fmt::format("--{} is not supported ({})", name, flag.help));
  }
  return {};
}

void read_server(OptionReader& reader, const FlagValues& values, ServeOptions& out) {
  reader.text("model", out.model);
  out.served_model_names = values.texts("served-model-name");
  if (out.served_model_names.empty()) out.served_model_names = {out.model};
  reader.text("host", out.host);
  reader.integer("port", out.port, 0, 65535);
  reader.text("uds", out.unix_socket);
  out.api_keys = values.texts("api-key");
  // As an unset variable makes it: nobody could ever give that key.
  if (std::find(out.api_keys.begin(), out.api_keys.end(), "") != out.api_keys.end()) {
    reader.fail("--api-key must not be empty");
  }
  reader.text("root-path", out.root_path);
  while (out.root_path.ends_with('/')) out.root_path.pop_back();
  reader.number("shutdown-timeout", out.shutdown_timeout_s);
  reader.flag("enable-request-id-headers", out.enable_request_id_headers);
  reader.number("sse-keep-alive-interval", out.keep_alive_interval_s);
  reader.flag("enable-server-load-tracking", out.track_server_load);
  out.access_log = !values.enabled("disable-uvicorn-access-log", false);
  reader.flag("enable-log-requests", out.log_requests);
  out.log_stats = !values.enabled("disable-log-stats", false);
  constexpr LogLevel kLevels[] = {LogLevel::kDebug,   LogLevel::kDebug, LogLevel::kInfo,
                                  LogLevel::kWarning, LogLevel::kError, LogLevel::kError};
  out.log_level =
      kLevels[reader.choice("uvicorn-log-level", {"debug", "trace", "info", "warning", "error", "critical"}, 2)];
}

void read_model(OptionReader& reader, const FlagValues& values, ServeOptions& out) {
  reader.text("tokenizer", out.tokenizer);
  reader.flag("skip-tokenizer-init", out.skip_tokenizer);
  constexpr DType kTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat32};
  const size_t type = reader.choice("dtype", {"auto", "bfloat16", "float16", "half", "float32", "float"}, 0);
  if (type > 0) out.dtype = kTypes[type - 1];
  const std::string length = values.text("max-model-len", "auto");
  if (length != "auto" && length != "-1") {
    int64_t value = 0;
    reader.integer("max-model-len", value, 2, kIntMax);
    out.max_model_len = value;
  }
  out.dummy_weights = reader.choice("load-format", {"auto", "safetensors", "dummy"}, 0) == 2;
  reader.integer("seed", out.seed, std::numeric_limits<int64_t>::min(), kNoLimit);
  reader.object("hf-overrides", out.hf_overrides);
  reader.flag("use-tqdm-on-load", out.progress_bar);
  reader.integer("threads", out.threads, 1, 4096);
  constexpr MatmulPrecision kPrecisions[] = {MatmulPrecision::kBf16, MatmulPrecision::kBf16x2};
  out.matmul_precision = kPrecisions[reader.choice("matmul-precision", {"bf16", "bf16x2"}, 0)];
}

void read_memory(OptionReader& reader, const FlagValues& values, ServeOptions& out) {
  if (values.has("kv-cache-memory-bytes")) {
    int64_t bytes = 0;
    reader.integer("kv-cache-memory-bytes", bytes, 1, kNoLimit);
    out.kv_cache_bytes = bytes;
  }
  out.kv_cache_float32 = reader.choice("kv-cache-dtype", {"auto", "float32"}, 0) == 1;
  reader.integer("block-size", out.block_size, 8, 128);
  if ((out.block_size & (out.block_size - 1)) != 0) {
    reader.fail(fmt::format("--block-size must be a power of two from 8 to 128, not {}", out.block_size));
  }
  reader.integer("max-num-seqs", out.max_num_seqs, 1, 65536);
  reader.integer("max-num-batched-tokens", out.max_num_batched_tokens, 1, 1 << 20);
  // Every sequence takes a token of a step, or some would wait for others to end.
  if (!values.has("max-num-batched-tokens")) {
    out.max_num_batched_tokens = std::max(out.max_num_batched_tokens, out.max_num_seqs);
  } else if (!values.has("max-num-seqs")) {
    out.max_num_seqs = std::min(out.max_num_seqs, out.max_num_batched_tokens);
  } else if (out.max_num_batched_tokens < out.max_num_seqs) {
    reader.fail(fmt::format("--max-num-batched-tokens ({}) must be at least --max-num-seqs ({})",
                            out.max_num_batched_tokens, out.max_num_seqs));
  }
  reader.flag("enable-prefix-caching", out.enable_prefix_caching);
  out.scheduling_policy = reader.choice("scheduling-policy", {"fcfs", "priority"}, 0) == 1 ? SchedulingPolicy::kPriority
                                                                                           : SchedulingPolicy::kFcfs;
  reader.integer("stream-interval", out.stream_interval, 1, kIntMax);
  reader.integer("max-num-queued-reqs", out.max_num_queued_reqs, 0, kIntMax);
  reader.integer("max-num-queued-tokens", out.max_num_queued_tokens, 0, kNoLimit);
}

void read_replies(OptionReader& reader, const FlagValues& values, ServeOptions& out) {
  reader.text("generation-config", out.generation_config);
  reader.object("override-generation-config", out.override_generation_config);
  reader.integer("max-logprobs", out.max_logprobs, -1, kIntMax);
  const std::string mode = values.text("logprobs-mode", "raw_logprobs");
  if (const auto parsed = parse_logprobs_mode(mode)) {
    out.logprobs_mode = *parsed;
  } else {
    reader.fail(fmt::format("--logprobs-mode '{}' is unknown", mode));
  }
  reader.flag("return-tokens-as-token-ids", out.return_tokens_as_token_ids);
  reader.flag("enable-return-routed-experts", out.return_routed_experts);
  reader.flag("enable-scale-out", out.scale_out);
  reader.flag("tokens-only", out.tokens_only);
  if (out.tokens_only) out.scale_out = out.skip_tokenizer = true;
  reader.flag("enable-prompt-tokens-details", out.enable_prompt_tokens_details);
  reader.flag("enable-force-include-usage", out.enable_force_include_usage);
  reader.flag("enable-per-request-metrics", out.enable_per_request_metrics);
  const std::vector<std::string_view> modes = {"full", "hash", "custom", "none"};
  out.fingerprint_mode = modes[reader.choice("fingerprint-mode", modes, 0)];
  reader.text("fingerprint-value", out.fingerprint_value);
  if (out.fingerprint_mode == "custom" && out.fingerprint_value.empty()) {
    reader.fail("--fingerprint-mode custom needs --fingerprint-value");
  }
}

// A limit that an environment variable moves.
void read_limit(Environment environment, const char* name, int64_t& out, OptionReader& reader) {
  const char* text = environment(name);
  if (text == nullptr || *text == '\0') return;
  const auto value = python::parse_int(text);
  if (!value || *value < 1) return reader.fail(fmt::format("{} must be a positive integer, not '{}'", name, text));
  out = *value;
}

void read_environment(Environment environment, OptionReader& reader, ServeOptions& out) {
  const auto text = [&](const char* name) {
    const char* value = environment(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (out.api_keys.empty() && !text("VLLM_API_KEY").empty()) out.api_keys = {text("VLLM_API_KEY")};
  if (const std::string space = text("VLLM_CPU_KVCACHE_SPACE"); !space.empty() && !out.kv_cache_bytes) {
    const auto gib = python::parse_float(space);
    if (!gib || !(*gib >= 0) || *gib > 1e6) {
      reader.fail(fmt::format("VLLM_CPU_KVCACHE_SPACE must be a number of GiB, not '{}'", space));
    } else if (*gib > 0) {
      out.kv_cache_bytes = static_cast<int64_t>(*gib * (int64_t{1} << 30));
    }
  }
  read_limit(environment, "VLLM_MAX_STOP_STRINGS", out.max_stop_strings, reader);
  read_limit(environment, "VLLM_MAX_COMPLETION_PROMPTS", out.max_completion_prompts, reader);
  read_limit(environment, "VLLM_MAX_N_SEQUENCES", out.max_n, reader);
  read_limit(environment, "VLLM_MAX_NUM_BAD_WORDS", out.max_bad_words, reader);
  const std::string skip = text("VLLM_SKIP_MODEL_NAME_VALIDATION");
  out.skip_model_name_validation = skip == "1" || skip == "true" || skip == "True";
}

// What decides the numbers in replies, and no more: two servers with the same fingerprint give the same bits.
std::string replies_depend_on(const FlagValues& values) {
  std::string out;
  for (const char* name : {"model", "dtype", "matmul-precision", "kv-cache-dtype", "max-model-len", "hf-overrides",
                           "seed", "tokenizer", "generation-config", "override-generation-config", "logprobs-mode",
                           "chat-template", "chat-template-content-format", "default-chat-template-kwargs"}) {
    out += fmt::format("{}={};", name, values.text(name));
  }
  if (values.text("load-format") == "dummy") out += "load-format=dummy;";
  if (values.has("structured-outputs-config")) out += values.text("structured-outputs-config");
  return out;
}

}  // namespace

Result<ServeOptions> parse_serve_options(const std::vector<std::string>& words, Environment environment) {
  UNSPOOL_ASSIGN(FlagValues values, parse_flags(words));
  if (values.has("config")) {
    UNSPOOL_ASSIGN(FlagValues file, read_config_file(values.text("config")));
    values = merge(std::move(file), values);
  }
  ServeOptions out;
  UNSPOOL_TRY(sort_out(values, out));
  if (values.text("model").empty()) return invalid_argument("which model? unspool serve MODEL");
  OptionReader reader(values);
  read_server(reader, values, out);
  read_model(reader, values, out);
  read_memory(reader, values, out);
  read_replies(reader, values, out);
  read_environment(environment, reader, out);
  out.chat = read_chat_options(reader, values);
  out.control = read_control_options(reader, values, environment);
  out.grammar = read_grammar_options(reader, values, environment);
  if (!reader.error().ok()) return reader.error().error();
  out.given = replies_depend_on(values);
  return out;
}

}  // namespace unspool
