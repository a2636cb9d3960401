// Every flag of `unspool serve`, as data: parsing, help and docs/flags.md all come from this table.
#pragma once

#include <span>
#include <string_view>

namespace unspool {

enum class FlagKind {
  kSwitch,  // --x, --no-x
  kInteger,
  kSize,  // an integer that takes 1k, 2M, 1Ki, ...
  kNumber,
  kText,
  kTexts,  // one or more words
  kJson,   // an object; also --x.key value
};

enum class FlagSupport {
  kSupported,
  kIgnored,  // means nothing here: accepted with a log line
  kRefused,  // not served (yet): refused by name unless its value is neutral
};

struct FlagSpec {
  std::string_view name;  // without dashes
  FlagKind kind = FlagKind::kText;
  std::string_view default_text;  // shown; empty: none
  std::string_view help;
  FlagSupport support = FlagSupport::kSupported;
  std::string_view neutral = {};  // of a refused flag: values that change nothing, separated by '|'
  std::string_view alias = {};    // "-tp", "--tp": a second spelling, with its dashes
};

struct FlagGroup {
  std::string_view title;
  std::span<const FlagSpec> flags;
};

std::span<const FlagGroup> flag_groups();
// By name (dashes) or alias; nullptr where there is none.
const FlagSpec* find_flag(std::string_view name);

}  // namespace unspool
