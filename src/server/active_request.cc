#include "server/active_request.h"

#include "base/clock.h"
#include "base/log.h"

namespace unspool {

ActiveRequest::ActiveRequest(PreparedRequest prepared, std::shared_ptr<http::Responder> responder, Engine& engine,
                             ReplyWorkers& workers)
    : responder_(std::move(responder)), engine_(engine), workers_(workers), prepared_(std::move(prepared)) {}

ActiveRequest::~ActiveRequest() {
  if (on_end_) on_end_();
}

void ActiveRequest::set_weight_version(std::string_view version) {
  // A longer one would be more than clients read of a header, and cost them the reply; it is in the body all the same.
  constexpr size_t kMaxBytes = 2048;
  std::string text = header_text(version.substr(0, kMaxBytes + 1));
  if (text.size() <= kMaxBytes) headers_.emplace_back("X-Weight-Version", std::move(text));
}

void ActiveRequest::start(bool wait_for_admission) {
  if (prepared_.stream && !wait_for_admission) open_stream();
  // The prompts are moved out first: outputs of an early one may come, and end the request, while later ones are added.
  std::vector<PreparedPrompt> prompts = std::move(prepared_.prompts);
  const double now_s = monotonic_seconds();
  last_write_s_ = now_s;
  for (size_t i = 0; i < prompts.size(); ++i) {
    EngineRequest request;
    request.external_id = std::move(prompts[i].external_id);
    request.prompt_token_ids = std::move(prompts[i].token_ids);
    request.params = std::move(prompts[i].params);
    request.cache_salt = prepared_.cache_salt;
    request.priority = prepared_.priority;
    request.arrival_s = now_s;
    request.sink = [self = shared_from_this(), i](RequestOutput output) {
      self->receive(static_cast<int>(i), std::move(output));
    };
    const uint64_t id = engine_.add_request(std::move(request));
    const std::lock_guard lock(ids_mutex_);
    engine_ids_.push_back(id);
    if (dropped_) engine_.drop_request(id);
  }
  // Weak: the responder must not keep alive what keeps it alive.
  responder_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->drop_rest();
  });
}

void ActiveRequest::drop_rest() {
  const std::lock_guard lock(ids_mutex_);
  if (std::exchange(dropped_, true)) return;
  for (const uint64_t id : engine_ids_) engine_.drop_request(id);
}

void ActiveRequest::receive(int prompt_index, RequestOutput output) {
  {
    const std::lock_guard lock(mutex_);
    mailbox_.emplace_back(prompt_index, std::move(output));
    if (std::exchange(scheduled_, true)) return;
  }
  workers_.post([self = shared_from_this()] { self->process(); });
}

void ActiveRequest::process() {
  std::vector<std::pair<int, RequestOutput>> outputs;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (mailbox_.empty()) {
        scheduled_ = false;
        return;
      }
      outputs.swap(mailbox_);
    }
    if (!failed_) {
      // A fault of ours ends this reply and no other.
      try {
        std::string text;
        const double now_s = monotonic_seconds();
        for (auto& [prompt_index, output] : outputs) {
          text += prepared_.assembler->add(prompt_index, std::move(output), now_s);
        }
        deliver(std::move(text));
        if (prepared_.assembler->done()) end();
      } catch (const std::exception& error) {
        log_error("A reply could not be put together: {}", error.what());
        fail();
      }
    }
    outputs.clear();
  }
}

void ActiveRequest::fail() {
  failed_ = true;
  drop_rest();
  const std::lock_guard lock(write_mutex_);
  // An open stream breaks off when the responder goes.
  if (!std::exchange(ended_, true) && !stream_open_) send_error(*responder_, internal_server_error());
}

void ActiveRequest::open_stream() {
  stream_open_ = true;
  last_write_s_ = monotonic_seconds();
  responder_->start(200, kEventStreamType, headers_);
}

void ActiveRequest::deliver(std::string text) {
  if (text.empty()) return;
  const std::lock_guard lock(write_mutex_);
  if (ended_) return;
  if (!stream_open_) open_stream();
  last_write_s_ = monotonic_seconds();
  responder_->write(std::move(text));
}

void ActiveRequest::end() {
  const std::lock_guard lock(write_mutex_);
  if (std::exchange(ended_, true)) return;
  ReplyAssembler& assembler = *prepared_.assembler;
  std::string last = assembler.finish();
  if (assembler.stream() && (stream_open_ || !assembler.error())) {
    if (!stream_open_) open_stream();
    responder_->write(std::move(last));
    responder_->finish();
  } else if (assembler.error()) {
    send_error(*responder_, *assembler.error());
  } else {
    responder_->send({200, kJsonType, std::move(last), headers_});
  }
  // One failed prompt ends the reply; the others need not go on.
  if (assembler.error()) drop_rest();
}

bool ActiveRequest::keep_alive(double before_s) {
  const std::lock_guard lock(write_mutex_);
  if (ended_) return false;
  if (last_write_s_ < before_s) {
    // A refusal would have come by now: a stream that waits for admission has been admitted.
    if (!stream_open_) open_stream();
    last_write_s_ = monotonic_seconds();
    responder_->write(": keep-alive\n\n");
  }
  return true;
}

}  // namespace unspool
