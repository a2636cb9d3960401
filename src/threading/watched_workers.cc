#include "threading/watched_workers.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace unspool {
namespace {

// How late a thread is found to be over its limit; the watcher wakes as often while there is work, which nobody
// notices.
constexpr auto kWatchInterval = std::chrono::milliseconds(50);
constexpr int kLowestPriority = 19;
// What still runs at the end may use that much more of its processor.
constexpr double kLastSeconds = 0.1;

std::atomic<int>& num_left_behind_of_process() {
  static std::atomic<int> count = 0;
  return count;
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

// Shared with the threads: those that are left behind outlive the object.
struct WatchedWorkers::State : std::enable_shared_from_this<State> {
  struct Job {
    double limit_s = 0;
    std::function<void()> work;
    Callback callback;
  };
  struct Worker {
    clockid_t clock = 0;
    id_t thread_id = 0;
    bool busy = false;
    bool left_behind = false;
    double until_s = 0;  // on its clock
    Callback callback;
  };

  void start_worker();  // under the mutex, as is give_up()
  void work(Worker& self);
  void watch();
  std::vector<Callback> give_up(bool& any_busy);

  std::mutex mutex;
  std::condition_variable wake_worker;
  std::condition_variable wake_watcher;
  std::deque<Job> jobs;
  std::vector<std::shared_ptr<Worker>> workers;  // those that are watched
  int most_left_behind = 0;
  int niceness = 0;
  int num_left_behind = 0;
  int num_live = 0;     // watched threads that have not ended
  bool worked = false;  // since the watcher looked
  bool watcher_sleeps = false;
  bool stopping = false;
};

void WatchedWorkers::State::start_worker() {
  auto worker = std::make_shared<Worker>();
  workers.push_back(worker);
  ++num_live;
  std::thread([state = shared_from_this(), worker = std::move(worker)] { state->work(*worker); }).detach();
}

void WatchedWorkers::State::work(Worker& self) {
  std::unique_lock lock(mutex);
  pthread_getcpuclockid(pthread_self(), &self.clock);
  self.thread_id = static_cast<id_t>(syscall(SYS_gettid));
  if (niceness != 0) setpriority(PRIO_PROCESS, self.thread_id, niceness);
  while (true) {
    wake_worker.wait(lock, [this] { return !jobs.empty() || stopping; });
    if (stopping) break;
    Job job = std::move(jobs.front());
    jobs.pop_front();
    self.busy = true;
    self.until_s = seconds_of(self.clock) + job.limit_s;
    self.callback = std::move(job.callback);
    worked = true;
    if (std::exchange(watcher_sleeps, false)) wake_watcher.notify_one();
    lock.unlock();
    job.work();
    job.work = nullptr;  // what it owns goes before anyone hears that it is done
    lock.lock();
    if (self.left_behind) {
      --num_left_behind;
      --num_left_behind_of_process();
      return;
    }
    self.busy = false;
    const Callback callback = std::move(self.callback);
    lock.unlock();
    callback(Outcome::kDone);
    lock.lock();
  }
  --num_live;
  wake_watcher.notify_one();
}

std::vector<WatchedWorkers::Callback> WatchedWorkers::State::give_up(bool& any_busy) {
  std::vector<Callback> callbacks;
  for (size_t i = 0; i < workers.size();) {
    const std::shared_ptr<Worker> worker = workers[i];
    any_busy |= worker->busy;
    if (!worker->busy || seconds_of(worker->clock) < worker->until_s) {
      ++i;
      continue;
    }
    worker->left_behind = true;
    ++num_left_behind;
    ++num_left_behind_of_process();
    --num_live;
    setpriority(PRIO_PROCESS, worker->thread_id, kLowestPriority);
    callbacks.push_back(std::move(worker->callback));
    workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(i));
    if (!stopping) start_worker();
  }
  return callbacks;
}

void WatchedWorkers::State::watch() {
  std::unique_lock lock(mutex);
  while (!stopping || num_live > 0) {
    bool any_busy = false;
    const std::vector<Callback> given_up = give_up(any_busy);
    lock.unlock();
    for (const Callback& callback : given_up) callback(Outcome::kGivenUp);
    lock.lock();
    if (any_busy || std::exchange(worked, false) || stopping) {
      wake_watcher.wait_for(lock, kWatchInterval);
    } else {
      watcher_sleeps = true;
      wake_watcher.wait(lock, [this] { return !watcher_sleeps || stopping; });
    }
  }
}

WatchedWorkers::WatchedWorkers(int threads, int most_left_behind, int niceness) : state_(std::make_shared<State>()) {
  const std::lock_guard lock(state_->mutex);
  state_->most_left_behind = most_left_behind;
  state_->niceness = niceness;
  for (int i = 0; i < threads; ++i) state_->start_worker();
  watcher_ = std::thread([state = state_.get()] { state->watch(); });
}

WatchedWorkers::~WatchedWorkers() {
  std::deque<State::Job> dropped;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    dropped.swap(state_->jobs);
    for (const auto& worker : state_->workers) {
      if (worker->busy) worker->until_s = std::min(worker->until_s, seconds_of(worker->clock) + kLastSeconds);
    }
  }
  state_->wake_worker.notify_all();
  state_->wake_watcher.notify_all();
  watcher_.join();
}

void WatchedWorkers::post(double limit_s, std::function<void()> work, Callback callback) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->num_left_behind < state_->most_left_behind) {
      state_->jobs.push_back({limit_s, std::move(work), std::move(callback)});
      callback = nullptr;
    }
  }
  if (callback) return callback(Outcome::kRefused);
  state_->wake_worker.notify_one();
}

int threads_left_behind() {
  return num_left_behind_of_process();
}

int WatchedWorkers::num_left_behind() const {
  const std::lock_guard lock(state_->mutex);
  return state_->num_left_behind;
}

}  // namespace unspool
