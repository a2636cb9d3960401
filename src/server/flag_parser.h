// From command line and config file to the values of flags.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace unspool {

// What was given, by flag name: one text a word; "true" or "false" of a switch; JSON text of a JSON flag, its dotted
// forms merged.
class FlagValues {
 public:
  bool has(std::string_view name) const { return values_.contains(name); }
  // The last word given, or `fallback`.
  std::string text(std::string_view name, std::string_view fallback = {}) const;
  std::vector<std::string> texts(std::string_view name) const;
  bool enabled(std::string_view name, bool fallback) const;
  const std::vector<std::string>& names() const { return order_; }  // as first given

  void set(std::string_view name, std::vector<std::string> words);

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> order_;
};

// The words after `serve`. A word that is no flag's is the model. Flags may be written --a-b or --a_b, with = or a
// space; unknown ones are an error that names the nearest known.
Result<FlagValues> parse_flags(const std::vector<std::string>& words);

// The flags of a YAML file; lists are several words, maps JSON.
Result<FlagValues> read_config_file(const std::string& path);

// `over` wins.
FlagValues merge(FlagValues base, const FlagValues& over);

// "1k" is 1000 and "1K" or "1Ki" 1024, as in the reference's; so are m, g, t.
Result<int64_t> parse_size(std::string_view flag, std::string_view text);

}  // namespace unspool
