// The control plane from any thread: every command becomes a message to the engine thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/control.h"
#include "engine/control_plane.h"

namespace unspool {

class ControlClient final : public EngineControl {
 public:
  using Message = std::function<void(ControlPlane&)>;
  // False where the engine takes no more messages; the command is refused then, on the caller's thread.
  using Post = std::function<bool(Message)>;
  ControlClient(Post post, const ControlPlane& plane) : post_(std::move(post)), plane_(plane) {}

  void pause(PauseMode mode, bool clear_cache, ControlCallback<PauseReply> reply) override;
  void resume(ControlCallback<PauseReply> reply) override;
  void sleep(int level, PauseMode mode, ControlCallback<SleepReply> reply) override;
  void wake_up(std::optional<std::vector<std::string>> tags, ControlCallback<WakeReply> reply) override;
  void release_kv_cache_memory(DoneCallback reply) override;
  void reset_prefix_cache(bool reset_running_requests, ControlCallback<bool> reply) override;
  void abort(std::vector<std::string> external_ids, ControlCallback<int> reply) override;
  void update_weight_version(std::string version, DoneCallback reply) override;
  void reload_weights(ReloadRequest request, DoneCallback reply) override;
  void weight_checksums(ControlCallback<std::map<std::string, std::string>> reply) override;
  void zero_weights(DoneCallback reply) override;
  void start_weight_update(ControlCallback<uint64_t> reply) override;
  void hold_for_update(uint64_t session, DoneCallback reply) override;
  void finish_weight_update(uint64_t session, bool partial, std::optional<std::string> version,
                            DoneCallback reply) override;
  void drop_weight_update(uint64_t session, std::string why, DoneCallback reply) override;
  ControlStatus status() const override { return plane_.status(); }

 private:
  template <class Reply, class F>
  void send(const Reply& reply, F command) {
    if (post_(command)) return;
    if (reply) reply(Error{ErrorKind::kUnavailable, "The server is shutting down.", {}});
  }

  Post post_;
  const ControlPlane& plane_;
};

}  // namespace unspool
