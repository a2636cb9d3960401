#include "server/weight_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "engine/attempt.h"

namespace unspool {
namespace {

// How long a sender that has died keeps its memory here, at most.
constexpr double kTendSeconds = 1;

// The engine's answer to a command, which comes from its own thread.
template <class R, class F>
R answer_of(F command) {
  const auto promise = std::make_shared<std::promise<R>>();
  command([promise](R answer) { promise->set_value(std::move(answer)); });
  return promise->get_future().get();
}

Error shutting_down() {
  return {ErrorKind::kUnavailable, "The server is shutting down.", {}};
}
Error overtaken() {
  return {ErrorKind::kConflict, "Cut by a later init_weight_transfer_engine.", {}};
}

}  // namespace

WeightTransfer::WeightTransfer(EngineControl& control, WeightStaging& staging, TransferBackend backend,
                               std::unique_ptr<WeightTransport> transport, double timeout_s,
                               WeightUpdateMetrics metrics)
    : control_(control),
      staging_(staging),
      backend_(backend),
      timeout_s_(timeout_s),
      metrics_(std::move(metrics)),
      transport_(std::move(transport)),
      thread_([this] { run(); }) {}

WeightTransfer::~WeightTransfer() {
  stop();
  thread_.join();
}

void WeightTransfer::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  interrupt_.set(shutting_down());
  wake_.notify_one();
}

void WeightTransfer::init(Result<InitInfo> info, DoneCallback reply) {
  const bool is_valid = info.ok();  // words that mean nothing overtake nobody
  post([this, info = std::move(info)] { return info.ok() ? do_init(*info) : Status(info.error()); },
       timed(Operation::kInit, std::move(reply)), is_valid);
}

void WeightTransfer::start(bool partial, DoneCallback reply, SessionName name) {
  post([this, partial, name = std::move(name)] { return do_start(partial, name); }, std::move(reply));
}

void WeightTransfer::update(Result<UpdateInfo> info, DoneCallback reply, SessionName name) {
  post([this, info = std::move(info), name = std::move(name)] { return do_update(info, name); },
       timed(Operation::kUpdate, std::move(reply)));
}

void WeightTransfer::finish(std::optional<std::string> version, DoneCallback reply, SessionName name) {
  post([this, version = std::move(version), name = std::move(name)] { return do_finish(version, name); },
       std::move(reply));
}

void WeightTransfer::shut_down(DoneCallback reply) {
  post([this] { return do_shut_down(); }, timed(Operation::kShutdown, std::move(reply)));
}

void WeightTransfer::post(std::function<Status()> run, DoneCallback reply, bool overtakes) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) {
      tasks_.push_back({++last_number_, std::move(run), std::move(reply)});
      if (overtakes) {
        cut_before_ = last_number_;
        interrupt_.set(overtaken());
      }
      wake_.notify_one();
      return;
    }
  }
  reply(shutting_down());
}

DoneCallback WeightTransfer::timed(Operation operation, DoneCallback reply) {
  metrics_.begin(operation);
  return [this, operation, reply = std::move(reply), started_s = monotonic_seconds()](Status status) {
    metrics_.end(operation, monotonic_seconds() - started_s);
    reply(std::move(status));
  };
}

// Waits for the next task; nullopt at the end, and when it is time to look after what is idle.
std::optional<WeightTransfer::Task> WeightTransfer::next() {
  std::unique_lock lock(mutex_);
  const auto due = [this] { return stopped_ || !tasks_.empty(); };
  if (is_tended_ || session_) {
    const double left_s = session_ ? session_->heard_s + timeout_s_ - monotonic_seconds() : kTendSeconds;
    const double wait_s = is_tended_ ? std::min(left_s, kTendSeconds) : left_s;
    wake_.wait_for(lock, std::chrono::duration<double>(std::max(wait_s, 0.0)), due);
  } else {
    wake_.wait(lock, due);
  }
  if (stopped_ || tasks_.empty()) return std::nullopt;
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  interrupt_.clear();
  if (task.number < cut_before_) interrupt_.set(overtaken());
  return task;
}

void WeightTransfer::run() {
  while (!is_stopped()) {
    if (const auto task = next()) {
      task->reply(attempt("A weight transfer", task->run));
    } else {
      tend();
    }
  }
  transport_->shut_down();
  for (const Task& task : std::exchange(tasks_, {})) task.reply(shutting_down());  // none is added once it has stopped
}

bool WeightTransfer::is_stopped() {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void WeightTransfer::tend() {
  if (session_ && session_->heard_s + timeout_s_ <= monotonic_seconds()) {
    log_warning("The weight update session has heard nothing for {} s; it is dropped", timeout_s_);
    drop_session(fmt::format("it heard nothing for {} s", timeout_s_));
  }
  if (is_tended_) is_tended_ = transport_->tend(control_.status().weights_asleep);
}

Status WeightTransfer::do_init(const InitInfo& info) {
  drop_session("another trainer has initialised weight transfer");
  is_tended_ = true;
  return transport_->init(info, TransferLimit(timeout_s_, interrupt_));
}

Status WeightTransfer::do_start(bool partial, const SessionName& name) {
  UNSPOOL_TRY(TransferLimit(timeout_s_, interrupt_).check("the session began"));
  UNSPOOL_ASSIGN(const uint64_t id, answer_of<Result<uint64_t>>([&](ControlCallback<uint64_t> reply) {
                   control_.start_weight_update(std::move(reply));
                 }));
  session_ = Session{.id = id, .name = name, .partial = partial, .heard_s = monotonic_seconds()};
  return {};
}

// The engine ends one by itself where memory goes to sleep.
bool WeightTransfer::session_is_open() {
  if (session_ && !control_.status().update_open) session_.reset();
  return session_.has_value();
}

// Two trainers' tensors in one session would be a model that neither has.
Status WeightTransfer::check_is_open_as(const SessionName& name) {
  if (!session_is_open() || session_->name == name) return {};
  return Error{ErrorKind::kConflict, "The weight update session that is open is another trainer's.", "session"};
}

void WeightTransfer::drop_session(const std::string& why) {
  if (!session_) return;
  const Status dropped =
      answer_of<Status>([&](DoneCallback reply) { control_.drop_weight_update(session_->id, why, std::move(reply)); });
  if (!dropped.ok()) log_error("A weight update session cannot be dropped: {}", dropped.error().message);
  session_.reset();
}

Status WeightTransfer::do_update(const Result<UpdateInfo>& info, const SessionName& name) {
  is_tended_ = true;
  if (info.ok() && info->is_whole_session && !session_is_open()) return do_whole_session(*info);
  UNSPOOL_TRY(check_is_open_as(name));
  const Status received = attempt("A weight update", [&] { return receive(info); });
  if (received.ok()) return {};
  transport_->give_up();
  drop_session(received.error().message);
  return received;
}

// Of trainers that know no start and finish.
Status WeightTransfer::do_whole_session(const UpdateInfo& info) {
  UNSPOOL_TRY(do_start(info.partial, std::nullopt));
  Status status = attempt("A weight update", [&] { return receive(info); });
  if (status.ok()) status = do_finish(std::nullopt, std::nullopt);
  if (status.ok()) return {};
  transport_->give_up();
  drop_session(status.error().message);
  return status;
}

Status WeightTransfer::receive(const Result<UpdateInfo>& info) {
  const TransferLimit limit(timeout_s_, interrupt_);
  // Without a session the engine knows what is wrong: it was not started, or memory is asleep.
  if (!session_is_open()) {
    UNSPOOL_TRY(answer_of<Status>([&](DoneCallback reply) { control_.hold_for_update(0, std::move(reply)); }));
    return internal_error("start_weight_update must be called before update_weights.");
  }
  if (!info.ok()) return info.error();
  UNSPOOL_TRY(staging_.check(info->tensors));
  UNSPOOL_TRY(transport_->check(*info));
  UNSPOOL_TRY(limit.check("the update began"));
  const uint64_t id = session_->id;
  // The engine answers between two steps. Where nothing that it serves is written there is nothing to wait for: a
  // session that it has ended takes no tensor.
  if (staging_.mode() == WeightUpdateMode::kInPlace)
    UNSPOOL_TRY(answer_of<Status>([&](DoneCallback reply) { control_.hold_for_update(id, std::move(reply)); }));
  const auto put = [&](size_t i, std::span<const std::byte> bytes) {
    return staging_.put(id, info->tensors[i], bytes);
  };
  UNSPOOL_TRY(transport_->receive(*info, put, limit));
  session_->partial |= info->partial;
  session_->heard_s = monotonic_seconds();
  return {};
}

Status WeightTransfer::do_finish(const std::optional<std::string>& version, const SessionName& name) {
  UNSPOOL_TRY(TransferLimit(timeout_s_, interrupt_).check("the session ended"));
  UNSPOOL_TRY(check_is_open_as(name));
  const Session session = session_is_open() ? *session_ : Session();
  // What can be done here need not be done between two steps. A session that has just ended is the engine's to tell of.
  if (session_) static_cast<void>(staging_.settle(session.id));
  const Status finished = answer_of<Status>([&](DoneCallback reply) {
    control_.finish_weight_update(session.id, session.partial, version, std::move(reply));
  });
  if (finished.ok()) {
    session_.reset();
  } else if (session_is_open()) {
    session_->heard_s = monotonic_seconds();  // what is missing may still come
  }
  return finished;
}

Status WeightTransfer::do_shut_down() {
  if (session_is_open()) {
    return internal_error(
        "shutdown_weight_transfer_engine called while a weight update is active. Call "
        "finish_weight_update first.");
  }
  transport_->shut_down();
  return {};
}

}  // namespace unspool
