#define PCRE2_CODE_UNIT_WIDTH 8
#include "unicode/pcre2_pattern.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

namespace unspool::unicode {
namespace {

// Steps of one search, a few of which every character passed by takes: far above what a body of some megabytes needs,
// and a pattern that backtracks without bound ends within a second. What a search that gave up has not split stays one
// piece.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

// The first of the escapes that PCRE2 and Oniguruma understand differently, 0 where `pattern` has none.
char divergent_escape(const std::string& pattern) {
  for (size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] != '\\') continue;
    ++i;
    if (std::string_view("wWbBhH").find(pattern[i]) != std::string_view::npos) return pattern[i];
  }
  return 0;
}

}  // namespace

struct Pcre2Pattern::Compiled {
  ~Compiled() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
};

Pcre2Pattern::Pcre2Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pcre2Pattern::~Pcre2Pattern() = default;

Result<std::unique_ptr<const Pattern>> Pcre2Pattern::compile(const std::string& pattern) {
  if (const char escape = divergent_escape(pattern); escape != 0) {
    return invalid_argument(
        fmt::format("regex {}: \\{} is not supported, expected the class spelt out", pattern, escape));
  }
  auto compiled = std::make_unique<Compiled>();
  int code = 0;
  PCRE2_SIZE offset = 0;
  // MULTILINE because ^ and $ are always those of lines in Oniguruma's syntax.
  compiled->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  if (compiled->code == nullptr) {
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(code, reason, sizeof reason);
    return invalid_argument(
        fmt::format("regex {}: {} at byte {}", pattern, reinterpret_cast<const char*>(reason), offset));
  }
  compiled->limits = pcre2_match_context_create(nullptr);
  if (compiled->limits == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(compiled->limits, kMatchLimit);
  pcre2_set_heap_limit(compiled->limits, kHeapLimitKib);
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);  // where it fails, pcre2_match interprets
  return std::unique_ptr<const Pattern>(new Pcre2Pattern(std::move(compiled)));
}

bool Pcre2Pattern::find(std::string_view text, size_t from, Match& match) const {
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(
      pcre2_match_data_create_from_pattern(compiled_->code, nullptr));
  if (data == nullptr) throw std::bad_alloc();
  const auto run = [&](uint32_t options) {
    return pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, data.get(), compiled_->limits);
  };
  int rc = run(0);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = run(PCRE2_NO_JIT);  // its stack is 32 KiB; the interpreter uses the heap
  if (rc < 0) return false;
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
  // \K in a lookahead can put the start behind the end.
  if (bounds[0] > bounds[1] || bounds[0] < from) return false;
  match = {bounds[0], bounds[1]};
  return true;
}

}  // namespace unspool::unicode
