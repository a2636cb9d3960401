// One connection, and what all connections of a server share.
#pragma once

#include <atomic>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "http/exchange.h"
#include "http/request_parser.h"
#include "http/router.h"
#include "http/server.h"

namespace unspool::http {

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using StreamSocket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, Strand>;
using StreamTimer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                      boost::asio::wait_traits<std::chrono::steady_clock>, Strand>;

class Session;

// Owns the sessions until they close; each holds the hub, so that the I/O context outlives every socket.
struct Hub {
  explicit Hub(ServerOptions server_options);

  // False once the server stops or no longer accepts.
  bool add(const std::shared_ptr<Session>& session);
  void remove(Session* session);
  void answer_begins();
  void answer_ends();
  std::vector<std::shared_ptr<Session>> snapshot();

  const ServerOptions options;
  Router router;
  Filter filter;
  Observer observer;
  boost::asio::io_context context;
  // Set when no new requests are taken; every answer then closes its connection.
  const std::shared_ptr<std::atomic<bool>> draining = std::make_shared<std::atomic<bool>>(false);

  std::mutex mutex;  // guards all below
  std::condition_variable answer_ended;
  std::unordered_map<Session*, std::shared_ptr<Session>> sessions;
  size_t answers_in_progress = 0;
};

// Reads requests in order and writes their answers in order, one at a time. All members but wake() run on the socket's
// strand. A read stays pending while an answer is made: its end is how a vanished client shows, and what comes early
// belongs to the next request.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Hub> hub, StreamSocket socket, std::string remote);

  void run();            // from any thread, once
  void wake();           // from any thread: the exchange has bytes, an end, or a break
  void close_if_idle();  // from any thread: closes unless an answer is in progress
  void close_now();      // from any thread

 private:
  // kRefusing writes a last error answer; kLingering has sent everything and waits for the client to close.
  enum class State { kIdle, kHeader, kBody, kAnswering, kRefusing, kLingering, kClosed };

  void read();
  void on_read(boost::system::error_code ec, size_t bytes);
  void parse();
  void on_header();
  void dispatch();
  void answer(HttpRequest request);
  void refuse(int status, std::string_view detail);

  void pump();
  void write_some();
  void on_written(boost::system::error_code ec, size_t bytes);
  void finish_answer();
  void linger();

  void abandon();  // the client is gone, or must go
  void close();
  void observe(int status);

  void set_deadline(int seconds);
  void clear_deadline() { deadline_ = std::chrono::steady_clock::time_point::max(); }
  void arm_timer();
  void on_deadline();

  const std::shared_ptr<Hub> hub_;
  StreamSocket socket_;
  StreamTimer timer_;
  const std::string remote_;
  State state_ = State::kIdle;

  // A read may be pending while a request is parsed, so what it fills is apart from what has come.
  std::string arriving_;
  bool reading_ = false;
  std::string input_;  // not yet parsed
  std::optional<RequestParser> parser_;

  std::shared_ptr<Exchange> exchange_;  // while kAnswering
  std::string method_;                  // of the exchange, for the observer
  std::string_view route_;
  std::chrono::steady_clock::time_point began_;
  bool keep_alive_ = true;

  std::string queued_;   // our own bytes: 100 Continue and refusals
  std::string writing_;  // being written, from written_ on; not empty while a write is pending
  size_t written_ = 0;
  bool writing_exchange_ = false;  // those bytes are the exchange's

  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  bool timer_pending_ = false;
};

}  // namespace unspool::http
