// The pattern of a Split pre-tokenizer: a regular expression or a literal.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace unspool::unicode {

// A part of a text, [begin, end) in bytes, and whether the pattern matched it.
struct Span {
  size_t begin;
  size_t end;
  bool is_match;

  bool operator==(const Span&) const = default;
};

// Immutable; find_matches may be called from several threads at once.
class Pattern {
 public:
  // The patterns of the common families run in the scanners of scanners.h, any other in PCRE2. `use_scanner` = false
  // keeps to PCRE2 (to test the scanners against it). Errors: kInvalidArgument where PCRE2 does not understand it.
  static Result<std::unique_ptr<const Pattern>> regex(const std::string& pattern, bool use_scanner = true);
  static std::unique_ptr<const Pattern> literal(std::string text);
  virtual ~Pattern() = default;

  // Appends spans that cover `text` (valid UTF-8) in order, from its start to its end.
  void find_matches(std::string_view text, std::vector<Span>& spans) const;

 protected:
  struct Match {
    size_t begin;
    size_t end;
  };
  // The first match at or after `from`; false where there is none.
  virtual bool find(std::string_view text, size_t from, Match& match) const = 0;
};

}  // namespace unspool::unicode
