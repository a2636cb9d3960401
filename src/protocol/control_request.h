// What the development routes are asked, in queries and bodies, with the reference's refusals.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/json.h"
#include "protocol/api_error.h"

namespace unspool {

// Decoded, in order. Of a parameter that is no list the last one counts.
using QueryParameters = std::vector<std::pair<std::string, std::string>>;

struct PauseQuery {
  std::string mode = "abort";  // or "wait", "keep"
  bool clear_cache = true;
};
ApiResult<PauseQuery> parse_pause_query(const QueryParameters& query);

struct SleepQuery {
  int level = 1;
  std::string mode = "abort";
};
// From the query alone: a body that names a level means nothing, as in the reference.
ApiResult<SleepQuery> parse_sleep_query(const QueryParameters& query);

// nullopt: none were given, which means all.
std::optional<std::vector<std::string>> wake_tags(const QueryParameters& query);

struct ResetPrefixCache {
  bool reset_running_requests = false;
  bool reset_external = false;
};
// From the query, or else from a JSON body: some clients send one.
ApiResult<ResetPrefixCache> parse_reset_prefix_cache(const QueryParameters& query, std::string_view body);

// /server_info: whether the configuration is wanted as an object.
ApiResult<bool> parse_config_format(const QueryParameters& query);
ApiResult<bool> parse_include_dp(const QueryParameters& query);

// /abort_requests as the development route has it. Empty: every request there is.
ApiResult<std::vector<std::string>> parse_abort_all_request(std::string_view body);

ApiResult<std::string> parse_new_version(std::string_view body);

struct WeightCheck {
  enum class Action { kChecksum, kReset, kCompare };
  Action action = Action::kChecksum;
  std::map<std::string, std::string> baseline;  // of compare
};
ApiResult<WeightCheck> parse_weight_check(std::string_view body);

// The bodies of weight transfer. Each object is looked into by whoever knows the backend.
ApiResult<JsonDocument> parse_init_transfer(std::string_view body);  // {"init_info": {..}}
// {"update_info": {..}} or a list of such, one a worker; or {"weight_dir": a directory or null}.
ApiResult<JsonDocument> parse_update_weights(std::string_view body);
// `session` is whatever a trainer calls its session, so that no other one's calls get into it.
struct StartUpdate {
  bool partial = false;  // tensors may be left out
  std::optional<std::string> session = {};
};
struct FinishUpdate {
  std::optional<std::string> version = {};
  std::optional<std::string> session = {};
};
// The reference reads no body here; older ones say is_checkpoint_format.
ApiResult<StartUpdate> parse_start_update(std::string_view body);
ApiResult<FinishUpdate> parse_finish_update(std::string_view body);

// AReaL's update from a directory.
ApiResult<std::string> parse_model_path(std::string_view body);

// /collective_rpc. The views point into the document.
struct RpcRequest {
  JsonDocument document;
  std::string method;
  std::vector<JsonValue> args;
  JsonValue kwargs;  // an object or null
};
ApiResult<RpcRequest> parse_rpc_request(std::string_view body);

}  // namespace unspool
