#include "http/session.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <exception>

#include "base/log.h"
#include "http/response_head.h"

namespace unspool::http {
namespace {

namespace net = boost::asio;
using boost::system::error_code;

// A request's header fits; a thousand idle connections hold 4 MB of it.
constexpr size_t kReadBytes = 4 * 1024;
// Long bodies come in fewer pieces. About what a loopback socket delivers at once.
constexpr size_t kBodyReadBytes = 64 * 1024;
// Bytes of further requests that are kept while an answer is made. Past it the connection is not read until the answer
// is complete, so that its client's end shows only then; clients that pipeline that much hardly exist. It also bounds
// what moving the rest forward costs for each of many tiny requests.
constexpr size_t kMaxEarlyBytes = 64 * 1024;
// A buffer that a large answer made larger than this is given back once written.
constexpr size_t kKeptWriteBytes = 64 * 1024;
// How long the client has to read a last answer and close, before an unread request would reset the connection under
// it.
constexpr int kLingerSeconds = 2;
// What the observer sees for a client that left before there was an answer; nginx's number for the same.
constexpr int kClientClosedRequest = 499;

}  // namespace

Hub::Hub(ServerOptions server_options) : options(std::move(server_options)), context(options.io_threads) {}

bool Hub::add(const std::shared_ptr<Session>& session) {
  const std::lock_guard lock(mutex);
  if (draining->load()) return false;
  sessions.emplace(session.get(), session);
  return true;
}

void Hub::remove(Session* session) {
  const std::lock_guard lock(mutex);
  sessions.erase(session);
}

void Hub::answer_begins() {
  const std::lock_guard lock(mutex);
  ++answers_in_progress;
}

void Hub::answer_ends() {
  const std::lock_guard lock(mutex);
  if (--answers_in_progress == 0) answer_ended.notify_all();
}

std::vector<std::shared_ptr<Session>> Hub::snapshot() {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Session>> all;
  all.reserve(sessions.size());
  for (const auto& [key, session] : sessions) all.push_back(session);
  return all;
}

Session::Session(std::shared_ptr<Hub> hub, StreamSocket socket, std::string remote)
    : hub_(std::move(hub)), socket_(std::move(socket)), timer_(socket_.get_executor()), remote_(std::move(remote)) {}

void Session::run() {
  net::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->state_ == State::kClosed) return;
    self->set_deadline(self->hub_->options.keep_alive_s);
    self->read();
  });
}

void Session::wake() {
  // Weak, so that a handler that is never run (the server has stopped) keeps nothing alive.
  net::post(socket_.get_executor(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->pump();
  });
}

void Session::close_if_idle() {
  net::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->state_ == State::kIdle || self->state_ == State::kHeader || self->state_ == State::kBody) self->close();
  });
}

void Session::close_now() {
  net::post(socket_.get_executor(), [self = shared_from_this()] { self->abandon(); });
}

// --- reading

void Session::read() {
  if (reading_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswering && input_.size() >= kMaxEarlyBytes) return;
  reading_ = true;
  const size_t size = state_ == State::kBody ? kBodyReadBytes : kReadBytes;
  if (arriving_.size() != size) arriving_ = std::string(size, '\0');
  socket_.async_read_some(net::buffer(arriving_),
                          [self = shared_from_this()](error_code ec, size_t bytes) { self->on_read(ec, bytes); });
}

void Session::on_read(error_code ec, size_t bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (ec) return abandon();  // an end, a reset, or a half-closed connection: nobody to answer
  if (state_ == State::kRefusing || state_ == State::kLingering) return read();  // discards
  input_.append(arriving_, 0, bytes);
  if (state_ == State::kBody) set_deadline(hub_->options.body_timeout_s);
  parse();
  read();
}

void Session::parse() {
  while (state_ == State::kIdle || state_ == State::kHeader || state_ == State::kBody) {
    if (state_ == State::kIdle) {
      // Line ends before a request are skipped, as RFC 9112 asks.
      input_.erase(0, std::min(input_.find_first_not_of("\r\n"), input_.size()));
      if (input_.empty()) return;
      parser_.emplace(RequestLimits{hub_->options.max_header_bytes, hub_->options.max_body_bytes});
      state_ = State::kHeader;
      set_deadline(hub_->options.header_timeout_s);
    }
    const size_t taken = parser_->put(input_);
    input_.erase(0, taken);
    if (parser_->error_status() != 0) return refuse(parser_->error_status(), parser_->error_detail());
    if (state_ == State::kHeader && parser_->header_done()) on_header();
    if (parser_->done()) return dispatch();
    if (taken == 0) return;
  }
}

void Session::on_header() {
  state_ = State::kBody;
  set_deadline(hub_->options.body_timeout_s);
  if (parser_->expects_continue() && !parser_->done()) {
    queued_ += "HTTP/1.1 100 Continue\r\n\r\n";
    pump();
  }
}

void Session::dispatch() {
  keep_alive_ = parser_->keep_alive();
  const bool http_1_0 = parser_->http_1_0();
  HttpRequest request = parser_->release();
  parser_.reset();
  request.remote = remote_;
  if (input_.empty()) input_ = std::string();  // a body's last piece may have made it large

  state_ = State::kAnswering;
  clear_deadline();
  hub_->answer_begins();
  began_ = std::chrono::steady_clock::now();
  method_ = request.method;
  route_ = {};
  Exchange::Terms terms;
  terms.http_1_0 = http_1_0;
  terms.head_only = request.method == "HEAD";
  terms.close = !keep_alive_;
  terms.max_backlog_bytes = hub_->options.max_stream_backlog_bytes;
  terms.draining = hub_->draining;
  terms.wake = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->wake();
  };
  exchange_ = std::make_shared<Exchange>(std::move(terms));
  answer(std::move(request));
}

void Session::answer(HttpRequest request) {
  const auto responder = std::make_shared<ExchangeResponder>(exchange_);
  try {
    const Router::Match match = hub_->router.find(request.method, request.path);
    route_ = match.route;
    if (hub_->filter && hub_->filter(request, *responder)) return;
    if (match.handler != nullptr) {
      (*match.handler)(std::move(request), responder);
    } else if (match.route.empty()) {
      responder->send(detail_response(404, "Not Found"));
    } else {
      HttpResponse response = detail_response(405, "Method Not Allowed");
      response.headers.emplace_back("allow", match.allow);
      responder->send(std::move(response));
    }
  } catch (const std::exception& error) {
    // The responder goes out of scope; if nobody else holds it and nothing was sent, that answers 500.
    log_error("{} {} failed: {}", method_, route_, error.what());
  }
}

void Session::refuse(int status, std::string_view detail) {
  const HttpResponse response = detail_response(status, detail);
  queued_ += response_head(status, response.content_type, {}, BodyFraming::kLength, response.body.size(), true);
  queued_ += response.body;
  state_ = State::kRefusing;
  parser_.reset();
  input_.clear();
  pump();
}

// --- writing

void Session::pump() {
  if (state_ == State::kClosed) return;
  if (!writing_.empty()) {
    // A break cannot wait for a socket that takes nothing.
    if (exchange_ && exchange_->broken()) abandon();
    return;
  }
  writing_exchange_ = false;
  if (!queued_.empty()) {
    writing_.swap(queued_);
  } else if (exchange_) {
    switch (exchange_->take(writing_)) {
      case Exchange::Taken::kBytes:
        writing_exchange_ = true;
        break;
      case Exchange::Taken::kFinished:
        return finish_answer();
      case Exchange::Taken::kBroken:
        return abandon();
      case Exchange::Taken::kNothing:
        return clear_deadline();
    }
  } else if (state_ == State::kRefusing) {
    return linger();
  }
  if (!writing_.empty()) write_some();
}

void Session::write_some() {
  if (state_ == State::kAnswering || state_ == State::kRefusing) set_deadline(hub_->options.write_timeout_s);
  socket_.async_write_some(net::buffer(writing_.data() + written_, writing_.size() - written_),
                           [self = shared_from_this()](error_code ec, size_t bytes) { self->on_written(ec, bytes); });
}

void Session::on_written(error_code ec, size_t bytes) {
  if (state_ == State::kClosed) return;
  if (ec) return abandon();
  if (writing_exchange_) exchange_->written(bytes);
  written_ += bytes;
  if (written_ < writing_.size()) return write_some();
  writing_.clear();
  if (writing_.capacity() > kKeptWriteBytes) writing_ = std::string();
  written_ = 0;
  pump();
}

void Session::finish_answer() {
  observe(exchange_->status());
  const bool close_after = exchange_->closes_connection() || hub_->draining->load();
  exchange_->close(true);
  exchange_.reset();
  hub_->answer_ends();
  if (close_after) return linger();
  state_ = State::kIdle;
  set_deadline(hub_->options.keep_alive_s);
  parse();
  read();
}

void Session::linger() {
  state_ = State::kLingering;
  error_code ignored;
  socket_.shutdown(StreamSocket::shutdown_send, ignored);
  set_deadline(kLingerSeconds);
  input_.clear();
  read();
}

// --- ends

void Session::abandon() {
  if (state_ == State::kClosed) return;
  // Closed first, so that a callback that looks finds the connection gone.
  const auto exchange = std::move(exchange_);
  exchange_.reset();
  close();
  if (!exchange) return;
  observe(exchange->status());
  exchange->close(false);
  hub_->answer_ends();
}

void Session::close() {
  state_ = State::kClosed;
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  parser_.reset();
  hub_->remove(this);
}

void Session::observe(int status) {
  if (!hub_->observer) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began_;
  hub_->observer(method_, route_, status != 0 ? status : kClientClosedRequest, elapsed.count());
}

// --- time

void Session::set_deadline(int seconds) {
  deadline_ = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  // A timer that is due earlier looks again when it fires: most deadlines only move on, and moving a timer is dear.
  if (!timer_pending_ || deadline_ < timer_.expiry()) arm_timer();
}

void Session::arm_timer() {
  timer_pending_ = true;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](error_code ec) {
    if (ec || self->state_ == State::kClosed) return;
    self->timer_pending_ = false;
    if (self->deadline_ == std::chrono::steady_clock::time_point::max()) return;
    if (std::chrono::steady_clock::now() < self->deadline_) return self->arm_timer();
    self->on_deadline();
  });
}

void Session::on_deadline() {
  if (state_ == State::kHeader || state_ == State::kBody) {
    refuse(408, "Request timeout");
  } else {
    abandon();
  }
}

}  // namespace unspool::http
