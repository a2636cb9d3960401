#include "http/exchange.h"

#include <fmt/format.h>

#include <exception>

#include "base/check.h"
#include "base/log.h"

namespace unspool::http {

void Exchange::begin(int status, const std::string& content_type,
                     const std::vector<std::pair<std::string, std::string>>& headers, BodyFraming framing,
                     size_t body_bytes) {
  status_ = status;
  framing_ = framing;
  closes_connection_ = terms_.close || terms_.draining->load(std::memory_order_relaxed);
  append(response_head(status, content_type, headers, framing, body_bytes, closes_connection_));
}

void Exchange::append(std::string_view bytes) {
  accepted_.append(bytes);
  backlog_bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
}

bool Exchange::wake_needed() {
  return !std::exchange(woken_, true);
}

void Exchange::send(HttpResponse response) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    UNSPOOL_CHECK(stage_ == Stage::kOpen, "an answer was sent twice");
    begin(response.status, response.content_type, response.headers, BodyFraming::kLength, response.body.size());
    if (!terms_.head_only && response.status != 204) append(response.body);
    stage_ = Stage::kEnded;
    wake = wake_needed();
  }
  wake_if(wake);
}

void Exchange::start(int status, std::string content_type, std::vector<std::pair<std::string, std::string>> headers) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    UNSPOOL_CHECK(stage_ == Stage::kOpen, "a stream was started after an answer");
    begin(status, content_type, headers, terms_.http_1_0 ? BodyFraming::kUntilClose : BodyFraming::kChunked, 0);
    stage_ = Stage::kStreaming;
    wake = wake_needed();
  }
  wake_if(wake);
}

void Exchange::write(std::string bytes) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || broken_) return;
    UNSPOOL_CHECK(stage_ == Stage::kStreaming, "a write outside of a stream");
    if (bytes.empty() || terms_.head_only) return;  // an empty chunk would end the body
    if (framing_ == BodyFraming::kChunked) {
      append(fmt::format("{:x}\r\n", bytes.size()));
      append(bytes);
      append("\r\n");
    } else {
      append(bytes);
    }
    broken_ = backlog_bytes() > terms_.max_backlog_bytes;
    // A session that waits for a slow socket would not look again in time.
    wake = wake_needed() || broken_;
  }
  wake_if(wake);
}

void Exchange::finish() {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || broken_) return;
    UNSPOOL_CHECK(stage_ == Stage::kStreaming, "the end of a stream that was not started, or ended before");
    if (framing_ == BodyFraming::kChunked && !terms_.head_only) append("0\r\n\r\n");
    stage_ = Stage::kEnded;
    wake = wake_needed();
  }
  wake_if(wake);
}

void Exchange::on_disconnect(std::function<void()> callback) {
  std::function<void()> replaced;  // destroyed without the lock, as it may own handles of ours
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      replaced = std::exchange(disconnect_callback_, std::move(callback));
      return;
    }
    if (!disconnected_) return;
  }
  callback();
}

void Exchange::drop() noexcept try {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || stage_ == Stage::kEnded) return;
    if (stage_ == Stage::kOpen) {
      const HttpResponse response = detail_response(500, "Internal Server Error");
      begin(response.status, response.content_type, {}, BodyFraming::kLength, response.body.size());
      if (!terms_.head_only) append(response.body);
      stage_ = Stage::kEnded;
      wake = wake_needed();
    } else {
      broken_ = true;
      wake = true;
    }
  }
  wake_if(wake);
} catch (const std::exception& error) {
  log_error("an unanswered request could not be refused: {}", error.what());
}

Exchange::Taken Exchange::take(std::string& bytes) {
  const std::lock_guard lock(mutex_);
  if (broken_) return Taken::kBroken;
  if (!accepted_.empty()) {
    bytes.swap(accepted_);
    return Taken::kBytes;
  }
  if (stage_ == Stage::kEnded) return Taken::kFinished;
  woken_ = false;
  return Taken::kNothing;
}

void Exchange::close(bool complete) {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    disconnected_ = !complete;
    callback.swap(disconnect_callback_);
    accepted_ = std::string();
  }
  if (complete || !callback) return;
  try {
    callback();
  } catch (const std::exception& error) {
    log_error("a disconnect callback failed: {}", error.what());
  }
}

bool Exchange::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

int Exchange::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool Exchange::closes_connection() const {
  const std::lock_guard lock(mutex_);
  return closes_connection_;
}

}  // namespace unspool::http
