#include "server/grammar_options.h"

#include <fmt/format.h>

#include <limits>

namespace unspool {
namespace {

constexpr const char* kFlag = "structured-outputs-config";

void fail(OptionReader& reader, const std::string& why) {
  reader.fail(fmt::format("--{}: {}", kFlag, why));
}

bool read_switch(OptionReader& reader, std::string_view name, const JsonValue& value) {
  if (!value.is_bool()) fail(reader, fmt::format("{} must be true or false", name));
  return value.as_bool().value_or(false);
}

void read_config(OptionReader& reader, const JsonValue& config, GrammarOptions& out) {
  std::string_view backend = "auto";
  bool disable_additional_properties = false;
  for (const auto& [name, value] : config.members()) {
    if (name == "backend") {
      backend = value.as_string().value_or("");
      if (backend != "auto" && backend != "xgrammar") {
        fail(reader, fmt::format("the backend must be auto or xgrammar, not {}", value.dump()));
      }
    } else if (name == "disable_any_whitespace") {
      out.disable_any_whitespace = read_switch(reader, name, value);
    } else if (name == "disable_additional_properties") {
      disable_additional_properties = read_switch(reader, name, value);
    } else if (name == "enable_in_reasoning") {
      out.enable_in_reasoning = read_switch(reader, name, value);
    } else if (value.as_string() != std::string_view()) {
      fail(reader, fmt::format("{} is not supported", name));
    }
  }
  if (out.disable_any_whitespace && backend == "auto") {
    fail(reader, "disable_any_whitespace is only supported for xgrammar and guidance backends.");
  }
  if (disable_additional_properties) {
    fail(reader, "disable_additional_properties is only supported for the guidance backend.");
  }
}

void read_number(OptionReader& reader, Environment environment, const char* name, double& out) {
  const char* text = environment(name);
  if (text == nullptr || *text == '\0') return;
  const auto value = python::parse_float(text);
  if (value && *value >= 0 && *value <= 1e6) {
    out = *value;
  } else {
    reader.fail(fmt::format("{} must be a number of 0 or more, not '{}'", name, text));
  }
}

}  // namespace

GrammarOptions read_grammar_options(OptionReader& reader, const FlagValues& values, Environment environment) {
  GrammarOptions out;
  std::string config = "{}";
  reader.object(kFlag, config);
  if (values.has(kFlag) && reader.error().ok()) read_config(reader, JsonDocument::parse(config)->root(), out);
  if (const char* directory = environment("UNSPOOL_XGRAMMAR")) out.directory = directory;
  double cache_mib = static_cast<double>(out.compiler.cache_bytes >> 20);
  read_number(reader, environment, "VLLM_XGRAMMAR_CACHE_MB", cache_mib);
  out.compiler.cache_bytes = static_cast<size_t>(cache_mib * (1 << 20));
  read_number(reader, environment, "VLLM_REGEX_COMPILATION_TIMEOUT_S", out.compiler.limit_s);
  // As the reference has it: 0 is no limit.
  if (out.compiler.limit_s == 0) out.compiler.limit_s = std::numeric_limits<double>::infinity();
  return out;
}

}  // namespace unspool
