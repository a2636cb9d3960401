// The flags and variables of the control plane (docs/control.md).
#pragma once

#include <string>
#include <vector>

#include "layers/weight_staging.h"

namespace unspool {

class FlagValues;
class OptionReader;

// An environment variable's value, or nullptr; std::getenv in the program.
using Environment = const char* (*)(const char* name);

struct ControlOptions {
  bool dev_routes = false;
  bool unguarded_dev_routes = false;
  bool enable_sleep_mode = false;
  std::vector<std::string> preserve_parameter_names;
  std::string sleep_directory;  // empty: the default
  bool level1_in_memory = false;
  std::vector<std::string> weight_directories;  // empty: anywhere
  std::string weight_transfer_backend;          // empty: none
  WeightUpdateMode weight_update_mode = WeightUpdateMode::kDoubleBuffer;
  double weight_transfer_timeout_s = 300;
  std::string transfer_python = "python3";
  // Asked for with rl_config, and always so: to be logged.
  std::vector<std::string> always_so;
};

// Errors stay with the reader.
ControlOptions read_control_options(OptionReader& reader, const FlagValues& values, Environment environment);

}  // namespace unspool
