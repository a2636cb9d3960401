#include "server/worker_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "protocol/control_reply.h"
#include "protocol/field_reader.h"
#include "server/rpc_arguments.h"

namespace unspool {
namespace {

constexpr auto kFlag = [](const JsonValue& v, const std::string& loc, FieldErrors& e) {
  return coerce_bool(v, loc, e);
};
constexpr auto kText = [](const JsonValue& v, const std::string& loc, FieldErrors& e) {
  return coerce_string(v, loc, e);
};
constexpr auto kTexts = [](const JsonValue& v, const std::string& loc, FieldErrors& e) {
  return coerce_string_list(v, loc, e);
};

// Commands whose result is Python's None.
DoneCallback none(RpcReply reply) {
  return [reply = std::move(reply)](Status done) {
    reply(done.ok() ? ApiResult<std::string>("null") : command_error("collective_rpc", done.error()));
  };
}

}  // namespace

struct WorkerMethods::Method {
  std::string_view name;
  void (WorkerMethods::*run)(const RpcRequest& request, RpcReply reply) const;
};

const WorkerMethods::Method WorkerMethods::kMethods[] = {
    {"reload_weights", &WorkerMethods::reload_weights},
    {"sleep", &WorkerMethods::sleep},
    {"wake_up", &WorkerMethods::wake_up},
    {"compute_weight_checksums", &WorkerMethods::compute_weight_checksums},
    {"check_weights_changed", &WorkerMethods::check_weights_changed},
    {"reset_weights", &WorkerMethods::reset_weights},
    {"save_sharded_state", &WorkerMethods::save_sharded_state},
    {"discard", &WorkerMethods::discard},
    {"update_config", &WorkerMethods::update_config},
    {"get_supported_tasks", &WorkerMethods::get_supported_tasks},
    {"list_loras", &WorkerMethods::list_loras},
    {"report_device_id", &WorkerMethods::report_device_id},
    // Nothing is left to wait for, and there is nothing to clear: a step is over when it is over, and text models have
    // no such caches.
    {"check_health", &WorkerMethods::nothing},
    {"synchronize_device", &WorkerMethods::nothing},
    {"reset_mm_cache", &WorkerMethods::nothing},
    {"reset_encoder_cache", &WorkerMethods::nothing},
    {"init_weight_transfer_engine", &WorkerMethods::init_transfer},
    {"shutdown_weight_transfer_engine", &WorkerMethods::shut_down_transfer},
    {"start_weight_update", &WorkerMethods::start_update},
    {"start_draft_weight_update", &WorkerMethods::start_draft_update},
    {"update_weights", &WorkerMethods::update_weights},
    {"finish_weight_update", &WorkerMethods::finish_update},
    // SkyRL's, around the same session.
    {"skyrl_start_weight_update", &WorkerMethods::start_update},
    {"update_weights_ipc", &WorkerMethods::update_weights},
    {"update_weights_nccl", &WorkerMethods::update_over_nccl},
    {"skyrl_finish_weight_update", &WorkerMethods::finish_update},
    {"profile", &WorkerMethods::profile},
    {"get_model_inspection", &WorkerMethods::inspection},
    {"add_lora", &WorkerMethods::lora},
    {"remove_lora", &WorkerMethods::lora},
    {"pin_lora", &WorkerMethods::lora},
};

void WorkerMethods::call(const RpcRequest& request, RpcReply reply) const {
  const auto* const method = std::find_if(std::begin(kMethods), std::end(kMethods),
                                          [&](const Method& known) { return known.name == request.method; });
  if (method == std::end(kMethods)) {
    return reply(worker_error(fmt::format("'CPUWorker' object has no attribute '{}'", request.method)));
  }
  (this->*method->run)(request, std::move(reply));
}

void WorkerMethods::reload_weights(const RpcRequest& request, RpcReply reply) const {
  static constexpr std::string_view kNames[] = {"weights_iterator", "weights_path", "is_checkpoint_format"};
  RpcArguments arguments(request, kNames);
  ReloadRequest reload;
  if (!arguments.get("weights_iterator").is_null()) {
    arguments.fail("weights_iterator cannot be sent; give weights_path, a directory that the server can read");
  }
  arguments.read("weights_path", reload.weights_path, kText);
  arguments.read("is_checkpoint_format", reload.is_checkpoint_format, kFlag);
  if (arguments.error()) return reply(*arguments.error());
  if (reload.weights_path.empty()) {
    // As the reference, which has nothing to load either; trainers set another format first.
    if (loads_dummies_) {
      return reply(worker_error(
          "Model reloading with `dummy` format: give weights_path, or set load_format to auto with update_config"));
    }
    reload.weights_path = served_.path;
  } else {
    const auto path = roots_.resolve(reload.weights_path, "weights_path");
    if (!path.ok()) return reply(path.error());
    reload.weights_path = *path;
  }
  control_.reload_weights(std::move(reload), none(std::move(reply)));
}

// The reference's worker frees its memory under whatever the engine runs. Here sleep and wake_up are the engine's.
void WorkerMethods::sleep(const RpcRequest& request, RpcReply reply) const {
  static constexpr std::string_view kNames[] = {"level"};
  RpcArguments arguments(request, kNames);
  int64_t level = 1;
  arguments.read("level", level, [](const JsonValue& v, const std::string& loc, FieldErrors& e) {
    return coerce_int(v, loc, e, {.ge = 0, .le = 2});
  });
  if (arguments.error()) return reply(*arguments.error());
  control_.sleep(static_cast<int>(level), PauseMode::kAbort, [reply](Result<SleepReply> done) {
    reply(done.ok() ? ApiResult<std::string>("null") : command_error("collective_rpc", done.error()));
  });
}

void WorkerMethods::wake_up(const RpcRequest& request, RpcReply reply) const {
  static constexpr std::string_view kNames[] = {"tags"};
  RpcArguments arguments(request, kNames);
  std::optional<std::vector<std::string>> tags;
  arguments.read("tags", tags, kTexts);
  if (arguments.error()) return reply(*arguments.error());
  control_.wake_up(std::move(tags), [reply](Result<WakeReply> done) {
    reply(done.ok() ? ApiResult<std::string>("null") : command_error("collective_rpc", done.error()));
  });
}

void WorkerMethods::compute_weight_checksums(const RpcRequest&, RpcReply reply) const {
  control_.weight_checksums([reply](Result<WeightChecksums> done) {
    if (!done.ok()) return reply(command_error("collective_rpc", done.error()));
    reply(checksums_object(worker_checksums(*done)));
  });
}

// Trainers ask it after their first update.
void WorkerMethods::check_weights_changed(const RpcRequest&, RpcReply reply) const {
  control_.weight_checksums([reply, served = served_](Result<WeightChecksums> done) {
    if (!done.ok()) return reply(command_error("collective_rpc", done.error()));
    const auto changed = served.differs(*done);
    if (!changed.ok()) return reply(from_engine_error(changed.error()));
    reply(std::string(*changed ? "\"True\"" : "\"False\""));
  });
}

void WorkerMethods::reset_weights(const RpcRequest&, RpcReply reply) const {
  control_.zero_weights(none(std::move(reply)));
}

void WorkerMethods::save_sharded_state(const RpcRequest& request, RpcReply reply) const {
  static constexpr std::string_view kNames[] = {"path", "pattern", "max_size"};
  RpcArguments arguments(request, kNames);
  SaveRequest save;
  int64_t max_size = 0;
  arguments.read("path", save.path, kText);
  arguments.read("pattern", save.pattern, kText);
  arguments.read("max_size", max_size, [](const JsonValue& v, const std::string& loc, FieldErrors& e) {
    return coerce_int(v, loc, e, {.ge = 1});
  });
  if (save.path.empty()) arguments.fail("save_sharded_state() needs 'path', a directory that the server can write to");
  if (arguments.error()) return reply(*arguments.error());
  const auto path = roots_.resolve(save.path, "path");
  if (!path.ok()) return reply(path.error());
  save.path = *path;
  if (max_size > 0) save.max_size = static_cast<size_t>(max_size);
  control_.save_weights(std::move(save), none(std::move(reply)));
}

// Of the cache only: whoever is to lose the weights says so with a sleep.
void WorkerMethods::discard(const RpcRequest& request, RpcReply reply) const {
  static constexpr std::string_view kNames[] = {"tags"};
  RpcArguments arguments(request, kNames);
  std::optional<std::vector<std::string>> tags;
  arguments.read("tags", tags, kTexts);
  if (tags != std::vector<std::string>{"kv_cache"}) {
    arguments.fail("discard() takes the tags ['kv_cache']; weights are discarded by sleep(level=2)");
  }
  if (arguments.error()) return reply(*arguments.error());
  control_.release_kv_cache_memory(none(std::move(reply)));
}

// Trainers that start on dummy weights set the format back before they reload. There is but one other, so what asks for
// it where it is served already changes nothing, and what asks for anything else is not pretended to.
void WorkerMethods::update_config(const RpcRequest& request, RpcReply reply) const {
  static constexpr std::string_view kNames[] = {"overrides"};
  RpcArguments arguments(request, kNames);
  const JsonValue overrides = arguments.get("overrides");
  bool supported = overrides.is_object(), sets_format = false;
  for (const auto& [config, fields] : overrides.members()) {
    supported = supported && config == "load_config" && fields.is_object();
    for (const auto& [name, value] : fields.members()) {
      const std::string_view format = value.as_string().value_or("");
      supported = supported && name == "load_format" && (format == "auto" || format == "hf" || format == "safetensors");
      sets_format = true;
    }
  }
  if (!supported) {
    arguments.fail(
        "update_config() takes {'load_config': {'load_format': 'auto'}}, as it always is; to load another directory "
        "give it to reload_weights() as weights_path");
  }
  if (arguments.error()) return reply(*arguments.error());
  if (sets_format) loads_dummies_ = false;
  reply(std::string("null"));
}

void WorkerMethods::get_supported_tasks(const RpcRequest&, RpcReply reply) const {
  reply(std::string(R"(["generate"])"));
}

// An empty set, by its str().
void WorkerMethods::list_loras(const RpcRequest&, RpcReply reply) const {
  reply(std::string("\"set()\""));
}

void WorkerMethods::report_device_id(const RpcRequest&, RpcReply reply) const {
  reply(std::string("\"cpu\""));
}

void WorkerMethods::nothing(const RpcRequest&, RpcReply reply) const {
  reply(std::string("null"));
}

void WorkerMethods::profile(const RpcRequest&, RpcReply reply) const {
  reply(worker_error("Profiling is not enabled."));
}

// The reference's is a tree of PyTorch modules.
void WorkerMethods::inspection(const RpcRequest&, RpcReply reply) const {
  reply(
      worker_error("There are no modules to inspect. /server_info has the configuration, and "
                   "compute_weight_checksums the names of the weights."));
}

void WorkerMethods::lora(const RpcRequest&, RpcReply reply) const {
  reply(worker_error("LoRA is not enabled. Use --enable-lora to enable LoRA."));
}

}  // namespace unspool
