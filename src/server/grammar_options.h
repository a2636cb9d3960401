// What flags and environment say about structured outputs.
#pragma once

#include <string>

#include "grammar/grammar_compiler.h"
#include "server/control_options.h"
#include "server/flag_parser.h"
#include "server/option_reader.h"

namespace unspool {

struct GrammarOptions {
  bool disable_any_whitespace = false;
  bool enable_in_reasoning = false;
  std::string directory;  // UNSPOOL_XGRAMMAR; empty: look for it
  GrammarCompilerOptions compiler;
};

// --structured-outputs-config and the variables that move limits.
GrammarOptions read_grammar_options(OptionReader& reader, const FlagValues& values, Environment environment);

}  // namespace unspool
