#include "unicode/pattern.h"

#include <utility>

#include "unicode/pcre2_pattern.h"
#include "unicode/scanners.h"
#include "unicode/utf8.h"

namespace unspool::unicode {
namespace {

class ScannerPattern final : public Pattern {
 public:
  explicit ScannerPattern(Scanner scanner) : scanner_(scanner) {}

 private:
  bool find(std::string_view text, size_t from, Match& match) const override {
    if (from >= text.size()) return false;
    match = {from, scanner_(text, from)};
    return true;
  }

  Scanner scanner_;
};

class LiteralPattern final : public Pattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}

 private:
  bool find(std::string_view text, size_t from, Match& match) const override {
    const size_t at = text.find(literal_, from);
    if (at == std::string_view::npos) return false;
    match = {at, at + literal_.size()};
    return true;
  }

  std::string literal_;
};

}  // namespace

Result<std::unique_ptr<const Pattern>> Pattern::regex(const std::string& pattern, bool use_scanner) {
  const Scanner scanner = use_scanner ? find_scanner(pattern) : nullptr;
  if (scanner != nullptr) return std::unique_ptr<const Pattern>(std::make_unique<ScannerPattern>(scanner));
  return Pcre2Pattern::compile(pattern);
}

std::unique_ptr<const Pattern> Pattern::literal(std::string text) {
  return std::make_unique<LiteralPattern>(std::move(text));
}

void Pattern::find_matches(std::string_view text, std::vector<Span>& spans) const {
  size_t from = 0;
  size_t covered = 0;       // by the spans so far
  bool any_before = false;  // an empty match where the last match ended is no match of its own
  Match match{};
  while (from <= text.size() && find(text, from, match)) {
    if (match.begin == match.end) {
      from += from < text.size() ? decode(text, from).size_bytes : 1;
      if (any_before && match.end == covered) continue;
    } else {
      from = match.end;
    }
    if (covered != match.begin) spans.push_back({covered, match.begin, false});
    spans.push_back({match.begin, match.end, true});
    covered = match.end;
    any_before = true;
  }
  if (covered != text.size()) spans.push_back({covered, text.size(), false});
}

}  // namespace unspool::unicode
