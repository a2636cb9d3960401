#include "threading/watched_workers.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
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
#include <system_error>
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

// Below what a function that calls this has on the stack.
constexpr size_t kStackInUse = 64 << 10;

// Starts a detached thread. Where there is no room for so large a stack, as under `ulimit -v`, it gets what there is.
void start_thread(size_t stack_bytes, std::function<void()> work) {
  auto argument = std::make_unique<std::function<void()>>(std::move(work));
  const auto run = [](void* given) -> void* {
    const std::unique_ptr<std::function<void()>> own(static_cast<std::function<void()>*>(given));
    (*own)();
    return nullptr;
  };
  for (;; stack_bytes /= 2) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const bool sized = stack_bytes >= static_cast<size_t>(PTHREAD_STACK_MIN);
    if (sized) pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_t thread{};
    const int error = pthread_create(&thread, &attributes, run, argument.get());
    pthread_attr_destroy(&attributes);
    if (error == 0) {
      (void)argument.release();  // the thread's now
      return;
    }
    if (!sized) throw std::system_error(error, std::generic_category(), "a thread cannot be started");
  }
}

// The lowest address of this thread's stack.
char* stack_bottom() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return nullptr;
  void* bottom = nullptr;
  size_t size = 0;
  pthread_attr_getstack(&attributes, &bottom, &size);
  pthread_attr_destroy(&attributes);
  return static_cast<char*>(bottom);
}

// Gives back what deeper calls have touched; nothing where `bottom` is null.
void release_stack(char* bottom) {
  if (bottom == nullptr) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto unused = static_cast<size_t>(static_cast<char*>(__builtin_frame_address(0)) - bottom);
  if (unused > kStackInUse) madvise(bottom, (unused - kStackInUse) / page * page, MADV_DONTNEED);
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
  size_t stack_bytes = 0;
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
  start_thread(stack_bytes, [state = shared_from_this(), worker = std::move(worker)] { state->work(*worker); });
}

void WatchedWorkers::State::work(Worker& self) {
  std::unique_lock lock(mutex);
  pthread_getcpuclockid(pthread_self(), &self.clock);
  self.thread_id = static_cast<id_t>(syscall(SYS_gettid));
  if (niceness != 0) setpriority(PRIO_PROCESS, self.thread_id, niceness);
  char* const bottom = stack_bytes == 0 ? nullptr : stack_bottom();
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
    release_stack(bottom);
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

WatchedWorkers::WatchedWorkers(int threads, int most_left_behind, int niceness, size_t stack_bytes)
    : state_(std::make_shared<State>()) {
  const std::lock_guard lock(state_->mutex);
  state_->most_left_behind = most_left_behind;
  state_->niceness = niceness;
  state_->stack_bytes = stack_bytes;
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
