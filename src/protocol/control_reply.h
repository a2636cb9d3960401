// What the development routes answer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api_error.h"

namespace unspool {

using WeightChecksums = std::map<std::string, std::string>;  // checkpoint name to SHA-256 in hex

std::string status_body(std::string_view status);  // {"status":"paused"}
std::string flag_body(std::string_view key, bool value);
std::string message_body(std::string_view message);
std::string resumed_body(bool mixed_weights);
std::string sleeping_body(int level);
std::string woken_body(bool awake, const std::optional<std::vector<std::string>>& tags,
                       const std::vector<std::string>& ignored);
std::string aborted_body(int count);
std::string success_body(bool success, std::string_view message);  // AReaL's
std::string new_version_body(std::string_view version);

// Names as the reference numbers its workers; here there is one: "dp0:pp0:pcp0:tp0:model.norm.weight".
WeightChecksums worker_checksums(const WeightChecksums& by_name);
std::string checksums_body(const WeightChecksums& checksums);
std::string checksums_object(const WeightChecksums& checksums);
// What differs, and what is on one side alone, sorted.
std::string comparison_body(const WeightChecksums& checksums, const WeightChecksums& baseline);

// /collective_rpc: the one worker's result, already JSON.
std::string rpc_body(std::string_view result);

// {"error":"..."}: /pause, /resume, /abort_requests.
std::string flat_error_body(std::string_view message);
// What a command failed with in the engine. An order error reads "Call to <method> method failed: ...".
ApiError command_error(std::string_view method, const Error& error);
// The reference's words where a worker raises.
ApiError worker_error(std::string_view message);
inline constexpr std::string_view kTransferNotConfigured =
    "Weight transfer not configured. Please set weight_transfer_config to enable weight transfer.";

}  // namespace unspool
