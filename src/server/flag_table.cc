#include "server/flag_table.h"

#include <array>

namespace unspool {
namespace {

using enum FlagKind;
constexpr FlagSupport kOk = FlagSupport::kSupported;
constexpr FlagSupport kIgnored = FlagSupport::kIgnored;
constexpr FlagSupport kRefused = FlagSupport::kRefused;

constexpr FlagSpec kServer[] = {
    {"model", kText, "", "model directory; the same as the argument MODEL"},
    {"served-model-name", kTexts, "MODEL", "names that requests may give; replies name the first"},
    {"host", kText, "all addresses", "address to listen on"},
    {"port", kInteger, "8000", "port to listen on"},
    {"uds", kText, "", "Unix domain socket to listen on, instead of host and port"},
    {"api-key", kTexts, "",
     "keys of which a request must bear one (or $VLLM_API_KEY); /health, /ping, /version and /metrics "
     "stay open"},
    {"root-path", kText, "", "prefix that a proxy puts before every path"},
    {"config", kText, "", "YAML file of flags by name; the command line wins"},
    {"shutdown-timeout", kNumber, "10", "seconds that running requests have to end on SIGTERM; 0 aborts them at once"},
    {"enable-request-id-headers", kSwitch, "false", "answer with X-Request-Id"},
    {"sse-keep-alive-interval", kNumber, "0",
     "seconds of silence after which a stream of completions or chat gets a comment line; 0: "
     "never"},
    {"enable-server-load-tracking", kSwitch, "false", "count requests in progress in /load"},
    {"disable-uvicorn-access-log", kSwitch, "false", "no log line a request"},
    {"uvicorn-log-level", kText, "info", "debug, info, warning or error"},
    {"enable-log-requests", kSwitch, "false", "log what requests ask for"},
    {"max-log-len", kInteger, "", "characters of a prompt in the log", kIgnored},
    {"disable-log-requests", kSwitch, "", "the default", kIgnored},
    {"disable-log-stats", kSwitch, "false", "no vllm: metrics"},
    {"enable-log-outputs", kSwitch, "false", "log what is generated", kIgnored},
    {"enable-log-deltas", kSwitch, "", "log pieces of streams", kIgnored},
    {"log-error-stack", kSwitch, "", "log stack traces", kIgnored},
    {"disable-access-log-for-endpoints", kText, "", "paths without access log", kIgnored},
    {"disable-fastapi-docs", kSwitch, "", "there are no documentation pages", kIgnored},
    {"enable-offline-docs", kSwitch, "", "there are no documentation pages", kIgnored},
    {"h11-max-incomplete-event-size", kInteger, "", "HTTP parser limit", kIgnored},
    {"h11-max-header-count", kInteger, "", "HTTP parser limit", kIgnored},
    {"allow-credentials", kSwitch, "", "CORS", kRefused, "false"},
    {"allowed-origins", kJson, "[]", "CORS", kRefused, "[]"},
    {"allowed-methods", kJson, "", "CORS", kIgnored},
    {"allowed-headers", kJson, "", "CORS", kIgnored},
    {"api-server-count", kInteger, "1", "processes that answer requests", kRefused, "1", "-asc"},
    {"headless", kSwitch, "false", "engine without a server", kRefused, "false"},
    {"middleware", kTexts, "", "Python middleware", kRefused, "[]"},
    {"grpc", kSwitch, "", "gRPC server", kRefused, "false"},
    {"ssl-keyfile", kText, "", "TLS; put a proxy before the server", kRefused},
    {"ssl-certfile", kText, "", "TLS; put a proxy before the server", kRefused},
    {"ssl-ca-certs", kText, "", "TLS; put a proxy before the server", kRefused},
    {"enable-ssl-refresh", kSwitch, "", "TLS", kRefused, "false"},
    {"enable-tokenizer-info-endpoint", kSwitch, "", "GET /tokenizer_info", kRefused, "false"},
};

constexpr FlagSpec kModel[] = {
    {"tokenizer", kText, "MODEL", "directory or tokenizer.json of another tokenizer"},
    {"skip-tokenizer-init", kSwitch, "false", "serve token ids alone"},
    {"dtype", kText, "auto",
     "auto, bfloat16, float16 (or half) or float32 (or float); auto serves float32 checkpoints as bfloat16"},
    {"max-model-len", kSize, "the model's", "context length in tokens"},
    {"seed", kInteger, "0", "where requests without a seed draw theirs from"},
    {"hf-overrides", kJson, "{}", "fields that replace those of config.json"},
    {"tokenizer-mode", kText, "auto", "tokenizer implementation", kRefused, "auto|hf|slow"},
    {"load-format", kText, "auto",
     "auto or safetensors: the directory's safetensors files; dummy: small numbers and no file, for a trainer that "
     "sends the first weights, or to measure"},
    {"config-format", kText, "auto", "config file format", kRefused, "auto|hf"},
    {"quantization", kText, "", "quantised weights", kRefused, "none|None|null", "-q"},
    {"runner", kText, "auto", "what the model is for", kRefused, "auto|generate"},
    {"task", kText, "generate", "what the model is for", kRefused, "auto|generate"},
    {"convert", kText, "auto", "model adapters", kRefused, "auto|none"},
    {"trust-remote-code", kSwitch, "", "no code is ever loaded", kIgnored},
    {"revision", kText, "", "models are directories", kIgnored},
    {"code-revision", kText, "", "models are directories", kIgnored},
    {"tokenizer-revision", kText, "", "models are directories", kIgnored},
    {"hf-token", kText, "", "models are directories", kIgnored},
    {"hf-config-path", kText, "", "config from elsewhere", kRefused},
    {"download-dir", kText, "", "nothing is downloaded", kIgnored},
    {"ignore-patterns", kTexts, "", "nothing is downloaded", kIgnored},
    {"model-impl", kText, "", "model implementation", kIgnored},
    {"safetensors-load-strategy", kText, "", "weights are memory-mapped", kIgnored},
    {"model-loader-extra-config", kJson, "", "loader settings", kIgnored},
    {"use-tqdm-on-load", kSwitch, "true", "progress bar while weights load, on a terminal"},
    {"enforce-eager", kSwitch, "", "there are no graphs to capture", kIgnored},
    {"compilation-config", kJson, "", "nothing is compiled at start", kIgnored, {}, "-cc"},
    {"optimization-level", kText, "", "nothing is compiled at start", kIgnored, {}, "-O"},
    {"cudagraph-capture-sizes", kTexts, "", "there are no graphs to capture", kIgnored},
    {"max-cudagraph-capture-size", kInteger, "", "there are no graphs to capture", kIgnored},
    {"attention-backend", kText, "", "there is one", kIgnored},
    {"logits-processors", kTexts, "", "Python logits processors", kRefused},
    {"enable-prompt-embeds", kSwitch, "false", "embeddings as prompts", kRefused, "false"},
    {"limit-mm-per-prompt", kJson, "{}", "text models only", kIgnored},
    {"mm-processor-kwargs", kJson, "", "text models only", kIgnored},
    {"mm-processor-cache-gb", kNumber, "", "text models only", kIgnored},
    {"skip-mm-profiling", kSwitch, "", "text models only", kIgnored},
    {"language-model-only", kSwitch, "", "text models only", kIgnored},
    {"additional-config", kJson, "{}",
     "platform settings; {\"rl_config\":{\"enabled\":true}} turns the development routes on, as "
     "$VLLM_SERVER_DEV_MODE=1 does"},
};

constexpr FlagSpec kCpu[] = {
    {"threads", kInteger, "all allowed cores", "compute threads"},
    {"matmul-precision", kText, "bf16",
     "bf16, or bf16x2: activations in two halves, nearly float32, at about half the speed"},
};

constexpr FlagSpec kMemory[] = {
    {"kv-cache-memory-bytes", kSize, "2Gi, or a quarter of free memory",
     "bytes of the KV cache (or $VLLM_CPU_KVCACHE_SPACE, "
     "in GiB)"},
    {"kv-cache-dtype", kText, "auto", "auto (the served dtype) or float32"},
    {"block-size", kInteger, "16", "tokens a KV block: a power of two, 8 to 128"},
    {"max-num-seqs", kInteger, "256", "sequences in one step"},
    {"max-num-batched-tokens", kSize, "256",
     "tokens in one step, at least --max-num-seqs; longer prompts are cut into chunks"},
    {"enable-prefix-caching", kSwitch, "true", "reuse the KV blocks of common prefixes"},
    {"scheduling-policy", kText, "fcfs", "fcfs or priority"},
    {"stream-interval", kInteger, "1", "tokens a chunk of a stream, at least"},
    {"max-num-queued-reqs", kInteger, "none", "waiting requests beyond which new ones get a 503"},
    {"max-num-queued-tokens", kSize, "none", "waiting prompt tokens beyond which new requests get a 503"},
    {"enable-chunked-prefill", kSwitch, "true", "prompts are always chunked", kIgnored},
    {"async-scheduling", kSwitch, "", "scheduling costs microseconds here", kIgnored},
    {"gpu-memory-utilization", kNumber, "", "there is no GPU; see --kv-cache-memory-bytes", kIgnored},
    {"swap-space", kNumber, "", "preempted requests are recomputed", kIgnored},
    {"cpu-offload-gb", kNumber, "0", "weights on the host", kRefused, "0|0.0"},
    {"num-gpu-blocks-override", kInteger, "", "KV cache size in blocks", kRefused},
    {"prefix-caching-hash-algo", kText, "", "hash of prefixes", kIgnored},
    {"calculate-kv-scales", kSwitch, "", "no quantised KV cache", kRefused, "false"},
    {"kv-transfer-config", kJson, "", "KV transfer between servers", kRefused},
    {"kv-events-config", kJson, "", "KV events", kRefused},
    {"kv-offloading-size", kNumber, "", "KV cache offloading", kRefused},
    {"disable-hybrid-kv-cache-manager", kSwitch, "", "one kind of KV cache", kIgnored},
    {"disable-cascade-attn", kSwitch, "", "attention variants", kIgnored},
    {"max-num-partial-prefills", kInteger, "", "prompts share a step by its token budget", kIgnored},
    {"max-long-partial-prefills", kInteger, "", "prompts share a step by its token budget", kIgnored},
    {"long-prefill-token-threshold", kInteger, "", "prompts share a step by its token budget", kIgnored},
    {"scheduler-reserve-full-isl", kSwitch, "", "admission", kIgnored},
    {"scheduler-cls", kText, "", "Python scheduler", kRefused},
    {"watermark", kNumber, "", "KV cache reserve", kIgnored},
};

constexpr FlagSpec kSampling[] = {
    {"generation-config", kText, "auto", "auto: the model's generation_config.json; vllm: neutral; or a directory"},
    {"override-generation-config", kJson, "{}", "defaults on top of these; max_new_tokens caps every request"},
    {"max-logprobs", kInteger, "20", "log-probs a position that a request may ask for; -1: all"},
    {"logprobs-mode", kText, "raw_logprobs",
     "raw_logprobs, raw_logits, processed_logprobs or processed_logits; a request may "
     "choose its own"},
    {"return-tokens-as-token-ids", kSwitch, "false", "show tokens as token_id:N beside log-probs"},
    {"enable-scale-out", kSwitch, "false",
     "serve /inference/v1/generate, /inference/v1/abort_requests and the render routes"},
    {"tokens-only", kSwitch, "false", "the same and /abort_requests, without a tokenizer"},
    {"use-fp64-gumbel", kSwitch, "", "draws use integers and float32 throughout", kIgnored},
    {"return-sampling-mask", kSwitch, "false", "sampling masks in replies", kRefused, "false"},
    {"enable-return-routed-experts", kSwitch, "false",
     "which experts every token went to, in replies of a mixture of experts (docs/routed-experts.md)"},
    {"enable-trace-replay", kSwitch, "false", "replay of given tokens", kRefused, "false"},
    {"speculative-config", kJson, "", "speculative decoding", kRefused, "null|None|none", "-sc"},
    {"spec-method", kText, "", "speculative decoding", kRefused},
    {"spec-model", kText, "", "speculative decoding", kRefused},
    {"spec-tokens", kInteger, "", "speculative decoding", kRefused, "0"},
};

constexpr FlagSpec kUsage[] = {
    {"enable-prompt-tokens-details", kSwitch, "false", "cached prompt tokens in usage"},
    {"enable-force-include-usage", kSwitch, "false", "usage in every stream"},
    {"enable-per-request-metrics", kSwitch, "false", "times of a request in its reply"},
    {"fingerprint-mode", kText, "full", "system_fingerprint: full, hash, custom or none"},
    {"fingerprint-value", kText, "", "system_fingerprint with --fingerprint-mode custom"},
    {"per-request-spec-decode-metrics", kText, "none", "speculative decoding in replies", kRefused, "none"},
    {"show-hidden-metrics-for-version", kText, "", "old metric names", kIgnored},
    {"collect-detailed-traces", kTexts, "", "tracing", kIgnored},
    {"otlp-traces-endpoint", kText, "", "tracing", kRefused},
    {"kv-cache-metrics", kSwitch, "", "block statistics", kIgnored},
    {"enable-mfu-metrics", kSwitch, "", "estimated operations", kIgnored},
    {"enable-logging-iteration-details", kSwitch, "", "log steps", kIgnored},
};

constexpr FlagSpec kChat[] = {
    {"chat-template", kText, "the model's", "a file, the name of one of the model's templates, or the template itself"},
    {"chat-template-content-format", kText, "auto",
     "what the template takes for a message's content: string, openai (a list of parts), or auto: as its text says"},
    {"default-chat-template-kwargs", kJson, "{}", "variables of the template where a request has none of that name"},
    {"trust-request-chat-template", kSwitch, "false", "take templates from requests"},
    {"trust-request-mm-kwargs", kSwitch, "false",
     "take media_io_kwargs and mm_processor_kwargs from requests; they change nothing about texts"},
    {"response-role", kText, "assistant", "role of the message that answers"},
    {"enable-auto-tool-choice", kSwitch, "false", "let requests offer tools, with --tool-call-parser"},
    {"tool-call-parser", kText, "",
     "how the model writes its calls: hermes or qwen3_json, llama3_json or llama4_json, mistral, pythonic, qwen3_xml "
     "or "
     "qwen3_coder"},
    {"tool-parser-plugin", kText, "", "tool calls", kRefused},
    {"tool-strict-level", kText, "auto",
     "what calls are held to by a grammar: function (names), parameter (the schemas too), or auto: what a request "
     "asks"},
    {"tool-server", kText, "", "tool calls", kRefused},
    {"exclude-tools-when-tool-choice-none", kSwitch, "false", "keep the tools of such a request from its prompt"},
    {"reasoning-parser", kText, "", "how the model marks its reasoning: qwen3 or deepseek_r1"},
    {"reasoning-parser-plugin", kText, "", "reasoning", kRefused},
    {"reasoning-config", kJson, "", "reasoning", kRefused},
    {"structured-outputs-config", kJson, "{}",
     "`backend` (auto or xgrammar), `disable_any_whitespace` (JSON without whitespace; backend xgrammar alone), "
     "`enable_in_reasoning` (reasoning is held to it too)"},
};

constexpr FlagSpec kTraining[] = {
    {"enable-sleep-mode", kSwitch, "false", "sleep gives memory back to the system; without it, sleep only pauses"},
    {"sleep-preserve-parameter-names", kTexts, "", "patterns of parameters that survive a sleep of level 2"},
    {"sleep-directory", kText, "$XDG_CACHE_HOME/unspool",
     "where a sleep of level 1 writes weights that are not those of the checkpoint; not a tmpfs"},
    {"sleep-level1-backing", kText, "file", "file, or memory: such weights stay where they are"},
    {"weight-directory", kTexts, "anywhere",
     "directories that weights may be reloaded from and saved to, links resolved"},
    {"unguarded-dev-routes", kSwitch, "false", "the development routes need no API key"},
    {"weight-transfer-config", kJson, "",
     "how new weights come: {\"backend\": \"ipc\"} by shared memory of this host, {\"backend\": \"gloo\"} by "
     "torch.distributed"},
    {"weight-update-mode", kText, "double-buffer",
     "double-buffer: new weights gather beside those that are served; in-place: over them, in half the memory, and "
     "what "
     "fails half-way leaves nothing to serve"},
    {"weight-transfer-timeout", kNumber, "300",
     "seconds after which a transfer is cut, or a session that hears nothing is dropped; the old weights stay"},
    {"transfer-python", kText, "python3",
     "the Python, with torch, that receives weights over gloo; the package unspool beside this program comes first on "
     "its "
     "PYTHONPATH"},
    {"worker-extension-cls", kText, "", "Python methods on workers", kRefused},
    {"worker-cls", kText, "auto", "Python workers", kRefused, "auto"},
    {"enable-lora", kSwitch, "false", "LoRA adapters", kRefused, "false"},
    {"lora-modules", kTexts, "", "LoRA adapters", kRefused},
    {"max-loras", kInteger, "", "LoRA adapters", kIgnored},
    {"max-lora-rank", kInteger, "", "LoRA adapters", kIgnored},
    {"max-cpu-loras", kInteger, "", "LoRA adapters", kIgnored},
    {"fully-sharded-loras", kSwitch, "", "LoRA adapters", kIgnored},
    {"lora-dtype", kText, "", "LoRA adapters", kIgnored},
};

constexpr FlagSpec kParallel[] = {
    {"tensor-parallel-size", kInteger, "1", "one process serves one model", kRefused, "1", "-tp"},
    {"pipeline-parallel-size", kInteger, "1", "one process serves one model", kRefused, "1", "-pp"},
    {"data-parallel-size", kInteger, "1", "start several servers", kRefused, "1", "-dp"},
    {"data-parallel-size-local", kInteger, "1", "start several servers", kRefused, "1", "-dpl"},
    {"data-parallel-rank", kInteger, "0", "start several servers", kRefused, "0", "-dpn"},
    {"data-parallel-address", kText, "", "start several servers", kIgnored, {}, "-dpa"},
    {"data-parallel-rpc-port", kInteger, "", "start several servers", kIgnored, {}, "-dpp"},
    {"data-parallel-backend", kText, "", "start several servers", kIgnored, {}, "-dpb"},
    {"data-parallel-hybrid-lb", kSwitch, "false", "start several servers", kRefused, "false", "-dph"},
    {"data-parallel-external-lb", kSwitch, "false", "start several servers", kRefused, "false", "-dpe"},
    {"prefill-context-parallel-size", kInteger, "1", "one process serves one model", kRefused, "1", "-pcp"},
    {"decode-context-parallel-size", kInteger, "1", "one process serves one model", kRefused, "1", "-dcp"},
    {"enable-expert-parallel", kSwitch, "", "one process has all experts", kIgnored, {}, "-ep"},
    {"enable-eplb", kSwitch, "false", "mixtures of experts", kRefused, "false"},
    {"all2all-backend", kText, "", "mixtures of experts", kIgnored},
    {"moe-backend", kText, "", "mixtures of experts", kIgnored},
    {"distributed-executor-backend", kText, "", "there is one process", kIgnored},
    {"max-parallel-loading-workers", kInteger, "", "there is one process", kIgnored},
    {"disable-custom-all-reduce", kSwitch, "", "there is one process", kIgnored},
    {"nnodes", kInteger, "1", "there is one process", kRefused, "1"},
    {"node-rank", kInteger, "0", "there is one process", kRefused, "0"},
    {"master-addr", kText, "", "there is one process", kIgnored},
    {"master-port", kInteger, "", "there is one process", kIgnored},
    {"ray-workers-use-nsight", kSwitch, "", "there is one process", kIgnored},
};

constexpr std::array kGroups = {
    FlagGroup{"Server", kServer},
    FlagGroup{"Model", kModel},
    FlagGroup{"Processor", kCpu},
    FlagGroup{"Memory and scheduling", kMemory},
    FlagGroup{"Sampling and token routes", kSampling},
    FlagGroup{"Usage and metrics", kUsage},
    FlagGroup{"Chat, tools and structured outputs", kChat},
    FlagGroup{"Training and adapters", kTraining},
    FlagGroup{"Parallelism", kParallel},
};

}  // namespace

std::span<const FlagGroup> flag_groups() {
  return kGroups;
}

const FlagSpec* find_flag(std::string_view name) {
  for (const FlagGroup& group : kGroups) {
    for (const FlagSpec& flag : group.flags) {
      if (flag.name == name || (!flag.alias.empty() && flag.alias == name)) return &flag;
    }
  }
  return nullptr;
}

}  // namespace unspool
