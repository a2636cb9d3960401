#include "engine/grammar_masks.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "grammar/grammar_errors.h"

namespace unspool {
namespace {

// A job takes row after row, for waking a thread costs as much as some rows do. Beyond this it takes no further one:
// the limit is meant for one row, and who is given up must have been slow by itself.
constexpr double kLongJobS = 0.02;

Error nobody_left() {
  return Error{
      ErrorKind::kUnavailable, "The server is busy with grammars that take too long. Please try again later.", {}};
}

}  // namespace

// The rows of a step, shared with threads that may be at them when nobody waits any more.
struct GrammarMasks::Batch : std::enable_shared_from_this<Batch> {
  struct Work {
    std::shared_ptr<Constraint> constraint;
    std::vector<int32_t> token_ids;
    enum class State : uint8_t { kFree, kTaken, kDone } state = State::kFree;
    Status status;  // when done
  };
  struct Job {
    bool given_up = false;
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // Marks `at` as done and takes the next free row; kNone: the job is over.
  size_t take_after(size_t at, const Job& job, bool one_more) {
    const std::lock_guard lock(mutex);
    if (job.given_up) return kNone;
    if (at != kNone) works[at].state = Work::State::kDone;
    while (next < works.size() && works[next].state != Work::State::kFree) ++next;
    if (!one_more || next == works.size()) return kNone;
    works[next].state = Work::State::kTaken;
    return next++;
  }

  void work(const Job& job) {
    const double started_s = monotonic_seconds();
    for (size_t at = take_after(kNone, job, true); at != kNone;) {
      works[at].status = works[at].constraint->advance(works[at].token_ids);
      at = take_after(at, job, monotonic_seconds() - started_s < kLongJobS);
    }
  }

  void end_of(Job& job, WatchedWorkers::Outcome outcome) {
    const std::lock_guard lock(mutex);
    job.given_up = outcome != WatchedWorkers::Outcome::kDone;
    if (outcome == WatchedWorkers::Outcome::kRefused) refused = true;
    if (--num_jobs == 0) ended.notify_one();
  }

  void post(WatchedWorkers& workers, size_t jobs, double limit_s) {
    {
      const std::lock_guard lock(mutex);
      num_jobs += jobs;
    }
    for (size_t i = 0; i < jobs; ++i) {
      auto job = std::make_shared<Job>();
      workers.post(
          limit_s, [batch = shared_from_this(), job] { batch->work(*job); },
          [batch = shared_from_this(), job](WatchedWorkers::Outcome outcome) { batch->end_of(*job, outcome); });
    }
  }

  // Whether rows are left that nobody took.
  bool wait() {
    std::unique_lock lock(mutex);
    ended.wait(lock, [this] { return num_jobs == 0; });
    return std::any_of(works.begin(), works.end(), [](const Work& w) { return w.state == Work::State::kFree; });
  }

  std::mutex mutex;
  std::condition_variable ended;
  std::vector<Work> works;
  size_t next = 0;  // before it there is no free row
  size_t num_jobs = 0;
  bool refused = false;  // a job was: there are no threads for what is left
};

GrammarMasks::GrammarMasks(int threads, Limits limits) : threads_(threads), limits_(limits) {}

void GrammarMasks::start(std::span<const Row> rows) {
  batch_.reset();
  if (rows.empty()) return;
  if (!workers_) workers_ = std::make_unique<WatchedWorkers>(threads_, limits_.most_left_behind);
  batch_ = std::make_shared<Batch>();
  for (const Row& row : rows) {
    Batch::Work& work = batch_->works.emplace_back();
    work.constraint = row.constraint;
    work.token_ids = row.token_ids;
  }
  batch_->post(*workers_, std::min(rows.size(), static_cast<size_t>(threads_)), limits_.row_s);
}

void GrammarMasks::finish(std::span<Row> rows) {
  if (rows.empty()) return;
  UNSPOOL_CHECK(batch_ != nullptr && batch_->works.size() == rows.size(), "masks of rows that were not started");
  // What long jobs left takes others; where these are refused, nobody is there for it.
  while (batch_->wait() && !batch_->refused) batch_->post(*workers_, static_cast<size_t>(threads_), limits_.row_s);
  const std::lock_guard lock(batch_->mutex);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Batch::Work& work = batch_->works[i];
    if (work.state == Batch::Work::State::kDone) {
      if (!work.status.ok()) rows[i].error = work.status.error();
    } else {
      rows[i].error = work.state == Batch::Work::State::kTaken ? grammar_too_large(limits_.row_s) : nobody_left();
    }
  }
}

}  // namespace unspool
