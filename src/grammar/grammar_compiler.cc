#include "grammar/grammar_compiler.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "grammar/grammar_errors.h"

namespace unspool {
namespace {

constexpr int kMostLeftBehind = 4;
// Whoever generates goes first.
constexpr int kNiceness = 10;
// The library goes down references, nested patterns and rules by recursion, without a limit of its own, and a stack
// that ends ends the process. A level takes up to some 1.8 KiB for at least ten bytes of text (`{"items":`), or 0.4 KiB
// for one (a parenthesis of a pattern): with texts of 1 MiB 440 MiB.
constexpr size_t kStackBytes = size_t{1} << 30;
// What an entry costs beside its text and its grammar, so that failures are bounded as well.
constexpr size_t kEntryBytes = 512;

// What makes rules that begin with rules. From above: a text may quote the marks.
size_t num_links(const GrammarSpec& spec) {
  if (spec.kind == GrammarKind::kRegex) return 0;
  if (spec.kind == GrammarKind::kLark) return count_of(spec.text, ":");
  size_t links = count_of(spec.text, "::=");
  if (spec.kind == GrammarKind::kEbnf) return links;
  for (const char* keyword : {"\"$ref\"", "\"anyOf\"", "\"oneOf\"", "\"allOf\""}) links += count_of(spec.text, keyword);
  return links;
}

}  // namespace

struct GrammarCompiler::Cache {
  struct Entry {
    std::shared_ptr<const Compiled> compiled;  // null while it is being compiled
    std::vector<Callback> waiting;
    std::list<GrammarSpec>::iterator used;  // where compiled
    size_t bytes = 0;
  };

  // Drops what was used longest ago. What is in use lives on with its users.
  void shrink(size_t most_bytes) {
    while (bytes > most_bytes && !by_use.empty()) {
      const auto entry = entries.find(by_use.back());
      bytes -= entry->second.bytes;
      by_use.pop_back();
      entries.erase(entry);
    }
  }

  std::mutex mutex;
  std::map<GrammarSpec, Entry> entries;
  std::list<GrammarSpec> by_use;  // the last used first
  size_t bytes = 0;
  int64_t num_compiled = 0;
};

GrammarCompiler::GrammarCompiler(std::shared_ptr<GrammarBackend> backend, GrammarCompilerOptions options)
    : backend_(std::move(backend)),
      options_(options),
      cache_(std::make_unique<Cache>()),
      workers_(options.threads, kMostLeftBehind, kNiceness, kStackBytes) {}

GrammarCompiler::~GrammarCompiler() = default;

void GrammarCompiler::compile(const GrammarSpec& spec, Callback callback) {
  if (spec.text.size() > options_.max_text_bytes) {
    return callback(Compiled(invalid_argument(fmt::format("A grammar may have at most {} bytes, and this one has {}.",
                                                          options_.max_text_bytes, spec.text.size()))));
  }
  if (const size_t links = num_links(spec); links > options_.max_links) {
    return callback(Compiled(invalid_argument(
        fmt::format("A grammar may have at most {} rules, references (`$ref`) and alternatives (`anyOf`, `oneOf`, "
                    "`allOf`), and this one has {}.",
                    options_.max_links, links))));
  }
  std::shared_ptr<const Compiled> known;
  {
    const std::lock_guard lock(cache_->mutex);
    const auto [at, fresh] = cache_->entries.try_emplace(spec);
    Cache::Entry& entry = at->second;
    known = entry.compiled;
    if (known) {
      cache_->by_use.splice(cache_->by_use.begin(), cache_->by_use, entry.used);
    } else {
      entry.waiting.push_back(std::move(callback));
      if (!fresh) return;
    }
  }
  if (known) return callback(*known);
  auto result = std::make_shared<Compiled>(internal_error("the grammar was not compiled"));
  workers_.post(
      options_.limit_s, [backend = backend_, spec, result] { *result = backend->compile(spec); },
      [this, spec, result](WatchedWorkers::Outcome outcome) {
        switch (outcome) {
          case WatchedWorkers::Outcome::kDone:
            return finish(spec, *result);
          case WatchedWorkers::Outcome::kGivenUp:
            return finish(spec, grammar_too_large(options_.limit_s));
          case WatchedWorkers::Outcome::kRefused:
            break;
        }
        finish(spec, Error{ErrorKind::kUnavailable,
                           "The server is busy with grammars that take too long. Please try again later.",
                           {}});
      });
}

void GrammarCompiler::finish(const GrammarSpec& spec, const Compiled& compiled) {
  std::vector<Callback> waiting;
  {
    const std::lock_guard lock(cache_->mutex);
    const auto at = cache_->entries.find(spec);
    waiting = std::move(at->second.waiting);
    ++cache_->num_compiled;
    // A text that is wrong stays wrong; what was our own fault, or the moment's, is tried again.
    if (!compiled.ok() && compiled.error().kind != ErrorKind::kInvalidArgument) {
      cache_->entries.erase(at);
    } else {
      keep(spec, compiled);
    }
  }
  for (const Callback& callback : waiting) callback(compiled);
}

// Under the mutex; the entry is there.
void GrammarCompiler::keep(const GrammarSpec& spec, const Compiled& compiled) {
  Cache::Entry& entry = cache_->entries.at(spec);
  entry.compiled = std::make_shared<Compiled>(compiled);
  // The text is held twice, as the key and in the order of use.
  entry.bytes = kEntryBytes + 2 * spec.text.size() + (compiled.ok() ? (*compiled)->size_bytes() : 0);
  cache_->bytes += entry.bytes;
  cache_->by_use.push_front(spec);
  entry.used = cache_->by_use.begin();
  cache_->shrink(options_.cache_bytes);
}

void GrammarCompiler::condemn(const GrammarSpec& spec, const Error& error) {
  const std::lock_guard lock(cache_->mutex);
  const auto [at, fresh] = cache_->entries.try_emplace(spec);
  if (!fresh && !at->second.compiled) return;  // it is being compiled again, and will be condemned again
  if (!fresh) {
    cache_->bytes -= at->second.bytes;
    cache_->by_use.erase(at->second.used);
  }
  keep(spec, error);
}

GrammarCompiler::Stats GrammarCompiler::stats() const {
  const std::lock_guard lock(cache_->mutex);
  return {cache_->by_use.size(), cache_->bytes, cache_->num_compiled, workers_.num_left_behind()};
}

}  // namespace unspool
