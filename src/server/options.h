// What `unspool serve` was asked for, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/engine.h"
#include "request/sampling_params.h"
#include "server/chat_options.h"
#include "server/control_options.h"
#include "server/flag_parser.h"
#include "server/grammar_options.h"
#include "tensor/dtype.h"

namespace unspool {

struct ServeOptions {
  std::string model;
  std::vector<std::string> served_model_names;  // not empty
  std::string host = "::";
  uint16_t port = 8000;
  std::string unix_socket;
  std::vector<std::string> api_keys;
  std::string root_path;
  double shutdown_timeout_s = 10;
  bool enable_request_id_headers = false;
  double keep_alive_interval_s = 0;
  bool track_server_load = false;
  bool access_log = true;
  bool log_requests = false;
  LogLevel log_level = LogLevel::kInfo;
  bool log_stats = true;

  std::string tokenizer;  // empty: the model's
  bool skip_tokenizer = false;
  std::optional<DType> dtype;  // nullopt: auto
  std::optional<int64_t> max_model_len;
  bool dummy_weights = false;  // --load-format dummy
  int64_t seed = 0;
  std::string hf_overrides = "{}";
  bool progress_bar = true;
  int threads = 0;  // 0: all allowed cores
  MatmulPrecision matmul_precision = MatmulPrecision::kBf16;

  std::optional<int64_t> kv_cache_bytes;
  bool kv_cache_float32 = false;
  int block_size = 16;
  int max_num_seqs = 256;
  int max_num_batched_tokens = 256;
  bool enable_prefix_caching = true;
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
  int stream_interval = 1;
  int max_num_queued_reqs = 0;
  int64_t max_num_queued_tokens = 0;

  std::string generation_config = "auto";
  std::string override_generation_config = "{}";
  int max_logprobs = 20;
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
  bool return_tokens_as_token_ids = false;
  bool return_routed_experts = false;
  bool scale_out = false;
  bool tokens_only = false;

  bool enable_prompt_tokens_details = false;
  bool enable_force_include_usage = false;
  bool enable_per_request_metrics = false;
  std::string fingerprint_mode = "full";
  std::string fingerprint_value;

  int64_t max_stop_strings = 4;
  int64_t max_completion_prompts = 1024;
  int64_t max_n = 16384;
  int64_t max_bad_words = 128;
  bool skip_model_name_validation = false;

  ChatOptions chat;
  ControlOptions control;
  GrammarOptions grammar;

  std::vector<std::string> ignored_flags;  // given, without meaning here: to be logged
  std::string given;                       // flags and values that shape replies, for the fingerprint
};

// The words after `serve`: flags, --config and the environment put together. Errors name the flag.
Result<ServeOptions> parse_serve_options(const std::vector<std::string>& words, Environment environment);

}  // namespace unspool
