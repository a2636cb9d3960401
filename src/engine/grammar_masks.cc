#include "engine/grammar_masks.h"

#include <condition_variable>
#include <mutex>

#include "grammar/grammar_errors.h"

namespace unspool {
namespace {

// A mask takes some microseconds to some milliseconds. Everybody in the batch waits for it, so what takes much longer
// must end; a thread that was left behind takes cycles that nobody else wants.
constexpr double kLimitS = 1.0;
constexpr int kMostLeftBehind = 16;

struct Progress {
  std::mutex mutex;
  std::condition_variable done;
  size_t left = 0;
};

Error error_of(WatchedWorkers::Outcome outcome) {
  if (outcome == WatchedWorkers::Outcome::kGivenUp) return grammar_too_large(kLimitS);
  return Error{
      ErrorKind::kUnavailable, "The server is busy with grammars that take too long. Please try again later.", {}};
}

}  // namespace

GrammarMasks::GrammarMasks(int threads) : threads_(threads) {}

void GrammarMasks::fill(std::span<Row> rows) {
  if (rows.empty()) return;
  if (!workers_) workers_ = std::make_unique<WatchedWorkers>(threads_, kMostLeftBehind);
  Progress progress;
  progress.left = rows.size();
  for (Row& row : rows) {
    auto status = std::make_shared<Status>();
    workers_->post(
        kLimitS,
        [constraint = row.constraint, token_ids = row.token_ids, status] { *status = constraint->advance(token_ids); },
        [&row, &progress, status](WatchedWorkers::Outcome outcome) {
          if (outcome != WatchedWorkers::Outcome::kDone) {
            row.error = error_of(outcome);
          } else if (!status->ok()) {
            row.error = status->error();
          }
          const std::lock_guard lock(progress.mutex);
          if (--progress.left == 0) progress.done.notify_one();
        });
  }
  std::unique_lock lock(progress.mutex);
  progress.done.wait(lock, [&] { return progress.left == 0; });
}

}  // namespace unspool
