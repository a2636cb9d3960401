// Compiles grammars on threads of their own, each once, and keeps those that were used last.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "threading/watched_workers.h"

namespace unspool {

struct GrammarCompilerOptions {
  int threads = 2;                 // so that one that takes long holds up no other
  double limit_s = 5;              // of processor time, for one grammar
  size_t cache_bytes = 512 << 20;  // of compiled grammars that nobody need be using
  // A grammar's cost grows with its text, faster than in proportion; this one takes some hundred megabytes at worst.
  size_t max_text_bytes = 1 << 20;
  // Who follows a chain of rules each of which begins with the next takes memory by its square, for every sample:
  // 800 MB for 20,000, and some 30 MB for these.
  size_t max_links = 4096;
};

class GrammarCompiler {
 public:
  using Compiled = Result<std::shared_ptr<const CompiledGrammar>>;
  using Callback = std::function<void(const Compiled&)>;

  GrammarCompiler(std::shared_ptr<GrammarBackend> backend, GrammarCompilerOptions options);
  ~GrammarCompiler();

  // From any thread. Calls back once: before this returns where the outcome is known, else on another thread.
  void compile(const GrammarSpec& spec, Callback callback);

  // From now on, who asks for it hears the error: it compiles, but is of no use.
  void condemn(const GrammarSpec& spec, const Error& error);

  struct Stats {
    size_t num_kept = 0;
    size_t bytes_kept = 0;
    int64_t num_compiled = 0;  // since the start, failures included
    int num_left_behind = 0;   // threads whose grammar took too long and has not ended yet
  };
  Stats stats() const;

 private:
  struct Cache;
  void finish(const GrammarSpec& spec, const Compiled& compiled);
  void keep(const GrammarSpec& spec, const Compiled& compiled);

  std::shared_ptr<GrammarBackend> backend_;  // threads that were left behind are still in it
  GrammarCompilerOptions options_;
  std::unique_ptr<Cache> cache_;
  WatchedWorkers workers_;  // last: its callbacks use all of the above
};

}  // namespace unspool
