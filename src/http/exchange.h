// One request's answer on its way from any thread to the connection's strand.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "http/response_head.h"
#include "http/server.h"

namespace unspool::http {

// The producer (a handler, the engine's outputs) appends bytes on its side; the session takes them on its own. Bytes
// that arrive while the session writes are merged into its next write, and it is woken only when it has gone idle.
class Exchange {
 public:
  struct Terms {
    bool http_1_0 = false;   // no chunks: the body ends with the connection
    bool head_only = false;  // HEAD
    bool close = false;      // the client asked to close
    size_t max_backlog_bytes = 0;
    std::shared_ptr<const std::atomic<bool>> draining;  // if set, the connection closes after this answer
    std::function<void()> wake;                         // makes the session call take(); from any thread
  };
  explicit Exchange(Terms terms) : terms_(std::move(terms)) {}

  // The producer's side, as Responder documents it.
  void send(HttpResponse response);
  void start(int status, std::string content_type, std::vector<std::pair<std::string, std::string>> headers);
  void write(std::string bytes);
  void finish();
  void on_disconnect(std::function<void()> callback);
  size_t backlog_bytes() const { return backlog_bytes_.load(std::memory_order_relaxed); }
  // The last handle is gone: an answer that never began becomes a 500, one that never ended breaks the connection.
  void drop() noexcept;

  // The session's side.
  enum class Taken { kNothing, kBytes, kFinished, kBroken };
  Taken take(std::string& bytes);  // moves everything accepted so far into `bytes` (empty before)
  void written(size_t bytes) { backlog_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // No answer can reach the client any more, or all of it has. Calls the disconnect callback if the answer is not
  // complete, and lets go of it in any case.
  void close(bool complete);
  bool broken() const;
  int status() const;  // of the answer, 0 before there is one
  bool closes_connection() const;

 private:
  enum class Stage { kOpen, kStreaming, kEnded };
  void begin(int status, const std::string& content_type,
             const std::vector<std::pair<std::string, std::string>>& headers, BodyFraming framing, size_t body_bytes);
  void append(std::string_view bytes);
  bool wake_needed();
  void wake_if(bool needed) const {
    if (needed) terms_.wake();
  }

  const Terms terms_;
  std::atomic<size_t> backlog_bytes_{0};
  mutable std::mutex mutex_;  // guards all below
  Stage stage_ = Stage::kOpen;
  BodyFraming framing_ = BodyFraming::kLength;
  std::string accepted_;
  bool woken_ = false;   // the session will call take() without being asked
  bool broken_ = false;  // the connection must be closed in the middle of the answer
  bool closed_ = false;
  bool closes_connection_ = false;
  bool disconnected_ = false;
  int status_ = 0;
  std::function<void()> disconnect_callback_;
};

// What handlers hold.
class ExchangeResponder final : public Responder {
 public:
  explicit ExchangeResponder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeResponder() override { exchange_->drop(); }
  void send(HttpResponse response) override { exchange_->send(std::move(response)); }
  void start(int status, std::string content_type, std::vector<std::pair<std::string, std::string>> headers) override {
    exchange_->start(status, std::move(content_type), std::move(headers));
  }
  void write(std::string bytes) override { exchange_->write(std::move(bytes)); }
  void finish() override { exchange_->finish(); }
  size_t backlog_bytes() const override { return exchange_->backlog_bytes(); }
  void on_disconnect(std::function<void()> callback) override { exchange_->on_disconnect(std::move(callback)); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace unspool::http
