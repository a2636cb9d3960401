// Any regular expression, through PCRE2 (compiled to machine code where the processor allows it).
#pragma once

#include <memory>
#include <string>

#include "unicode/pattern.h"

namespace unspool::unicode {

// Where PCRE2 and Oniguruma, which PyPI's `tokenizers` uses, differ: an escape that means another thing (\w, \b, \h and
// their opposites) is refused; PCRE2's Unicode tables are of 14.0, so that code points assigned later have no class;
// and U+180E is one of its \s.
class Pcre2Pattern final : public Pattern {
 public:
  static Result<std::unique_ptr<const Pattern>> compile(const std::string& pattern);
  ~Pcre2Pattern() override;
  Pcre2Pattern(const Pcre2Pattern&) = delete;
  Pcre2Pattern& operator=(const Pcre2Pattern&) = delete;

 private:
  struct Compiled;
  explicit Pcre2Pattern(std::unique_ptr<Compiled> compiled);
  bool find(std::string_view text, size_t from, Match& match) const override;

  std::unique_ptr<Compiled> compiled_;
};

}  // namespace unspool::unicode
