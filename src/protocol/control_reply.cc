#include "protocol/control_reply.h"

#include <fmt/format.h>

#include "json/json_writer.h"

namespace unspool {
namespace {

void write_texts(JsonWriter& w, const std::vector<std::string>& texts) {
  w.begin_array();
  for (const std::string& text : texts) w.string(text);
  w.end_array();
}

void write_map(JsonWriter& w, const WeightChecksums& map) {
  w.begin_object();
  for (const auto& [name, value] : map) {
    w.key(name);
    w.string(value);
  }
  w.end_object();
}

std::string text_body(std::string_view key, std::string_view value) {
  JsonWriter w;
  w.begin_object();
  w.key(key);
  w.string(value);
  w.end_object();
  return std::move(w).str();
}

}  // namespace

std::string status_body(std::string_view status) {
  return text_body("status", status);
}

std::string message_body(std::string_view message) {
  return text_body("message", message);
}

std::string flag_body(std::string_view key, bool value) {
  JsonWriter w;
  w.begin_object();
  w.key(key);
  w.boolean(value);
  w.end_object();
  return std::move(w).str();
}

std::string resumed_body(bool mixed_weights) {
  if (!mixed_weights) return status_body("resumed");
  return R"({"status":"resumed","mixed_weights":true})";
}

std::string sleeping_body(int level) {
  return fmt::format(R"({{"status":"sleeping","level":{}}})", level);
}

std::string woken_body(bool awake, const std::optional<std::vector<std::string>>& tags,
                       const std::vector<std::string>& ignored) {
  JsonWriter w;
  w.begin_object();
  w.key("status");
  w.string(awake ? "awake" : "sleeping");
  w.key("tags");
  if (tags) {
    write_texts(w, *tags);
  } else {
    w.null();
  }
  if (!ignored.empty()) {
    w.key("ignored");
    write_texts(w, ignored);
  }
  w.end_object();
  return std::move(w).str();
}

std::string aborted_body(int count) {
  return fmt::format(R"({{"status":"aborted","aborted":{}}})", count);
}

std::string success_body(bool success, std::string_view message) {
  JsonWriter w;
  w.begin_object();
  w.key("success");
  w.boolean(success);
  w.key("message");
  w.string(sanitize_message(message));
  w.end_object();
  return std::move(w).str();
}

std::string new_version_body(std::string_view version) {
  JsonWriter w;
  w.begin_object();
  w.key("success");
  w.boolean(true);
  w.key("new_version");
  w.string(version);
  w.end_object();
  return std::move(w).str();
}

WeightChecksums worker_checksums(const WeightChecksums& by_name) {
  WeightChecksums out;
  for (const auto& [name, hash] : by_name) out["dp0:pp0:pcp0:tp0:" + name] = hash;
  return out;
}

std::string checksums_object(const WeightChecksums& checksums) {
  JsonWriter w;
  write_map(w, checksums);
  return std::move(w).str();
}

std::string checksums_body(const WeightChecksums& checksums) {
  JsonWriter w;
  w.begin_object();
  w.key("checksums");
  write_map(w, checksums);
  w.end_object();
  return std::move(w).str();
}

std::string comparison_body(const WeightChecksums& checksums, const WeightChecksums& baseline) {
  WeightChecksums differing;
  for (const auto& [name, hash] : checksums) {
    const auto other = baseline.find(name);
    if (other == baseline.end() || other->second != hash) differing.emplace(name, hash);
  }
  for (const auto& [name, hash] : baseline) {
    if (!checksums.contains(name)) differing.emplace(name, hash);
  }
  JsonWriter w;
  w.begin_object();
  w.key("match");
  w.boolean(differing.empty());
  w.key("mismatches");
  w.begin_array();
  for (const auto& [name, hash] : differing) w.string(name);
  w.end_array();
  w.end_object();
  return std::move(w).str();
}

std::string rpc_body(std::string_view result) {
  JsonWriter w;
  w.begin_object();
  w.key("results");
  w.begin_array();
  w.raw(result);
  w.end_array();
  w.end_object();
  return std::move(w).str();
}

std::string flat_error_body(std::string_view message) {
  return text_body("error", sanitize_message(message));
}

ApiError command_error(std::string_view method, const Error& error) {
  ApiError out = from_engine_error(error);
  if (error.kind == ErrorKind::kInternal)
    out.message = fmt::format("Call to {} method failed: {}", method, out.message);
  return out;
}

ApiError worker_error(std::string_view message) {
  return {500,
          "InternalServerError",
          fmt::format("Call to collective_rpc method failed: Worker failed with error '{}', please check the stack "
                      "trace above for the root cause",
                      message),
          {}};
}

}  // namespace unspool
