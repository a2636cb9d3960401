// A trainer's session of weight updates, from its routes to the engine: in the order they came, on a thread of its own,
// so that neither a request nor a step of the engine waits for a peer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/control.h"
#include "engine/control_metrics.h"
#include "layers/weight_staging.h"
#include "transfer/transport.h"

namespace unspool {

// What a trainer calls its session, if anything.
using SessionName = std::optional<std::string>;

// Thread-safe. Each command is answered once, on the transfer's thread; what was an order error or is not initialised
// is kInternal in the reference's words, what a client did wrong kInvalidArgument, a peer that is late or gone
// kTimeout.
class WeightTransfer {
 public:
  // No operation lasts longer than `timeout_s`, and no session hears nothing for as long. Control and staging outlive
  // this.
  WeightTransfer(EngineControl& control, WeightStaging& staging, TransferBackend backend,
                 std::unique_ptr<WeightTransport> transport, double timeout_s, WeightUpdateMetrics metrics);
  ~WeightTransfer();
  TransferBackend backend() const { return backend_; }

  // The trainer is another one, or has begun anew: what was asked for before is cut, and an open session ends.
  void init(Result<InitInfo> info, DoneCallback reply);
  void start(bool partial, DoneCallback reply, SessionName name = {});
  // A failed one ends the session; the weights are those of before. Where the session that is open goes by another
  // name, it is another trainer's: update and finish are refused, and that goes on.
  void update(Result<UpdateInfo> info, DoneCallback reply, SessionName name = {});
  void finish(std::optional<std::string> version, DoneCallback reply, SessionName name = {});
  void shut_down(DoneCallback reply);
  // Cuts what is under way; nothing is done from now on.
  void stop();

 private:
  using Operation = WeightUpdateMetrics::Operation;
  struct Task {
    uint64_t number = 0;
    std::function<Status()> run;
    DoneCallback reply;
  };
  struct Session {
    uint64_t id = 0;
    SessionName name;
    bool partial = false;
    double heard_s = 0;
  };

  void post(std::function<Status()> run, DoneCallback reply, bool overtakes = false);
  // The reply, with the time from now until then counted. The engine counts its own part.
  DoneCallback timed(Operation operation, DoneCallback reply);
  void run();
  bool is_stopped();
  std::optional<Task> next();
  void tend();

  Status do_init(const InitInfo& info);
  Status do_start(bool partial, const SessionName& name);
  Status do_update(const Result<UpdateInfo>& info, const SessionName& name);
  Status do_whole_session(const UpdateInfo& info);
  Status receive(const Result<UpdateInfo>& info);
  Status do_finish(const std::optional<std::string>& version, const SessionName& name);
  Status do_shut_down();
  bool session_is_open();
  Status check_is_open_as(const SessionName& name);
  void drop_session(const std::string& why);

  EngineControl& control_;
  WeightStaging& staging_;
  const TransferBackend backend_;
  const double timeout_s_;
  WeightUpdateMetrics metrics_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  uint64_t last_number_ = 0;
  uint64_t cut_before_ = 0;  // tasks that an init has overtaken
  bool stopped_ = false;
  Interrupt interrupt_;

  // The thread's own.
  std::unique_ptr<WeightTransport> transport_;
  std::optional<Session> session_;
  bool is_tended_ = true;

  std::thread thread_;  // last: it uses all of these
};

}  // namespace unspool
