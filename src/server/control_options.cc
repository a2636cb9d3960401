#include "server/control_options.h"

#include <fmt/format.h>

#include "json/json.h"
#include "protocol/python_text.h"
#include "server/option_reader.h"
#include "transfer/transfer_info.h"

namespace unspool {
namespace {

// bool(int(value)), as the reference reads it: "true" is an error there too.
bool is_set(Environment environment, const char* name, OptionReader& reader) {
  const char* text = environment(name);
  if (text == nullptr) return false;
  const auto value = python::parse_int(text);
  if (!value) reader.fail(fmt::format("{} must be an integer such as 1, not '{}'", name, text));
  return value.value_or(0) != 0;
}

bool rl_flag(const JsonValue& config, std::string_view name, OptionReader& reader) {
  const auto value = config.find(name);
  if (!value) return false;
  if (!value->is_bool()) {
    reader.fail(fmt::format("--additional-config: rl_config.{} must be true or false, not {}", name, value->dump()));
  }
  return value->as_bool().value_or(false);
}

// Keys of other platforms' settings mean nothing here.
void read_additional_config(OptionReader& reader, ControlOptions& out) {
  std::string text = "{}";
  reader.object("additional-config", text);
  const auto document = JsonDocument::parse(text);
  if (!document.ok()) return;
  const JsonValue config = document->root()["rl_config"];
  if (config.is_null()) return;
  if (!config.is_object()) return reader.fail("--additional-config: rl_config must be an object");
  const bool enabled = rl_flag(config, "enabled", reader);
  out.dev_routes |= enabled;
  // Without it the others count for nothing. Sleep leaves nothing for an extra cleanup.
  rl_flag(config, "sleep_mode_extra_cleanup", reader);
  for (const char* name : {"enable_training_consistency", "enable_batch_invariant"}) {
    if (rl_flag(config, name, reader) && enabled) out.always_so.emplace_back(name);
  }
}

// The reference's object, of which one key means something here.
void read_transfer_config(OptionReader& reader, const FlagValues& values, ControlOptions& out) {
  if (!values.has("weight-transfer-config")) return;
  const auto fail = [&](const std::string& message) { reader.fail("--weight-transfer-config: " + message); };
  std::string text;
  reader.object("weight-transfer-config", text);
  const auto document = JsonDocument::parse(text);
  if (!document.ok()) return;
  for (const auto& [key, value] : document->root().members()) {
    if (key != "backend") return fail(fmt::format("unknown key '{}'; expected \"backend\" alone", key));
  }
  const JsonValue backend = document->root()["backend"];
  const auto name = backend.as_string();
  if (!name || !parse_transfer_backend(*name)) {
    return fail(fmt::format("backend {} is not supported: {}", backend.dump(), kTransferBackends));
  }
  out.weight_transfer_backend = *name;
}

void read_weight_updates(OptionReader& reader, const FlagValues& values, ControlOptions& out) {
  read_transfer_config(reader, values, out);
  constexpr WeightUpdateMode kModes[] = {WeightUpdateMode::kDoubleBuffer, WeightUpdateMode::kInPlace};
  out.weight_update_mode = kModes[reader.choice("weight-update-mode", {"double-buffer", "in-place"}, 0)];
  reader.text("transfer-python", out.transfer_python);
  if (out.transfer_python.empty()) reader.fail("--transfer-python must not be empty");
  reader.number("weight-transfer-timeout", out.weight_transfer_timeout_s);
  // Longer than any training, and short enough to count nanoseconds.
  constexpr double kLongest = 1e8;
  if (!(out.weight_transfer_timeout_s > 0 && out.weight_transfer_timeout_s <= kLongest)) {
    reader.fail(fmt::format("--weight-transfer-timeout must be more than 0 and at most {:.0f} seconds, not {}",
                            kLongest, out.weight_transfer_timeout_s));
  }
}

}  // namespace

ControlOptions read_control_options(OptionReader& reader, const FlagValues& values, Environment environment) {
  ControlOptions out;
  out.dev_routes = is_set(environment, "VLLM_SERVER_DEV_MODE", reader);
  out.dev_routes |= is_set(environment, "UNSPOOL_SERVER_DEV_MODE", reader);
  read_additional_config(reader, out);
  reader.flag("unguarded-dev-routes", out.unguarded_dev_routes);
  reader.flag("enable-sleep-mode", out.enable_sleep_mode);
  out.preserve_parameter_names = values.texts("sleep-preserve-parameter-names");
  reader.text("sleep-directory", out.sleep_directory);
  out.level1_in_memory = reader.choice("sleep-level1-backing", {"file", "memory"}, 0) == 1;
  out.weight_directories = values.texts("weight-directory");
  read_weight_updates(reader, values, out);
  return out;
}

}  // namespace unspool
