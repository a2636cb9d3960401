// A request between the engine and its socket. Outputs come on the engine's thread and go into a mailbox; a reply
// worker empties it, one at a time, in order.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "http/server.h"
#include "protocol/prepared_request.h"
#include "server/replies.h"
#include "server/reply_workers.h"

namespace unspool {

inline constexpr const char* kEventStreamType = "text/event-stream; charset=utf-8";

class ActiveRequest : public std::enable_shared_from_this<ActiveRequest> {
 public:
  ActiveRequest(PreparedRequest prepared, std::shared_ptr<http::Responder> responder, Engine& engine,
                ReplyWorkers& workers);
  ~ActiveRequest();

  // For the X-Weight-Version header: the version at admission. Before start().
  void set_weight_version(std::string_view version);

  // Hands the prompts to the engine. A stream's head leaves now, unless `wait_for_admission`: then the first output
  // decides between 200 and a refusal.
  void start(bool wait_for_admission);

  // Sends a comment where a stream has been silent since `before_s`; false once the reply has ended.
  bool keep_alive(double before_s);

  // Runs when the request is over, however it ended.
  void on_end(std::function<void()> callback) { on_end_ = std::move(callback); }

 private:
  void receive(int prompt_index, RequestOutput output);
  void process();
  void deliver(std::string text);
  void end();
  void fail();
  void open_stream();
  void drop_rest();

  const std::shared_ptr<http::Responder> responder_;
  Engine& engine_;
  ReplyWorkers& workers_;

  std::mutex mutex_;  // guards the mailbox, and whether a worker has been called
  std::vector<std::pair<int, RequestOutput>> mailbox_;
  bool scheduled_ = false;

  // Only the worker that was called touches these (start() comes before any).
  PreparedRequest prepared_;
  bool failed_ = false;

  std::vector<std::pair<std::string, std::string>> headers_;  // of a reply that is no refusal

  std::mutex write_mutex_;  // a keep-alive comment must not fall behind the end
  bool stream_open_ = false;
  bool ended_ = false;
  double last_write_s_ = 0;

  std::mutex ids_mutex_;
  std::vector<uint64_t> engine_ids_;
  bool dropped_ = false;
  std::function<void()> on_end_;
};

}  // namespace unspool
