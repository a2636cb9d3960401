#include "engine/control_client.h"

namespace unspool {

void ControlClient::pause(PauseMode mode, bool clear_cache, ControlCallback<PauseReply> reply) {
  send(reply, [=](ControlPlane& plane) { plane.pause(mode, clear_cache, reply); });
}

void ControlClient::resume(ControlCallback<PauseReply> reply) {
  send(reply, [=](ControlPlane& plane) { plane.resume(reply); });
}

void ControlClient::sleep(int level, PauseMode mode, ControlCallback<SleepReply> reply) {
  send(reply, [=](ControlPlane& plane) { plane.sleep(level, mode, reply); });
}

void ControlClient::wake_up(std::optional<std::vector<std::string>> tags, ControlCallback<WakeReply> reply) {
  send(reply, [=](ControlPlane& plane) { plane.wake_up(tags, reply); });
}

void ControlClient::release_kv_cache_memory(DoneCallback reply) {
  send(reply, [=](ControlPlane& plane) { plane.release_kv_cache_memory(reply); });
}

void ControlClient::reset_prefix_cache(bool reset_running_requests, ControlCallback<bool> reply) {
  send(reply, [=](ControlPlane& plane) { plane.reset_prefix_cache(reset_running_requests, reply); });
}

void ControlClient::abort(std::vector<std::string> external_ids, ControlCallback<int> reply) {
  send(reply, [=](ControlPlane& plane) { plane.abort(external_ids, reply); });
}

void ControlClient::update_weight_version(std::string version, DoneCallback reply) {
  send(reply, [=](ControlPlane& plane) { plane.update_weight_version(version, reply); });
}

void ControlClient::reload_weights(ReloadRequest request, DoneCallback reply) {
  send(reply, [=](ControlPlane& plane) { plane.reload_weights(request, reply); });
}

void ControlClient::weight_checksums(ControlCallback<std::map<std::string, std::string>> reply) {
  send(reply, [=](ControlPlane& plane) { plane.weight_checksums(reply); });
}

void ControlClient::zero_weights(DoneCallback reply) {
  send(reply, [=](ControlPlane& plane) { plane.zero_weights(reply); });
}

void ControlClient::start_weight_update(ControlCallback<uint64_t> reply) {
  send(reply, [=](ControlPlane& plane) { plane.start_weight_update(reply); });
}

void ControlClient::hold_for_update(uint64_t session, DoneCallback reply) {
  send(reply, [=](ControlPlane& plane) { plane.hold_for_update(session, reply); });
}

void ControlClient::finish_weight_update(uint64_t session, bool partial, std::optional<std::string> version,
                                         DoneCallback reply) {
  send(reply, [=](ControlPlane& plane) { plane.finish_weight_update(session, partial, version, reply); });
}

void ControlClient::drop_weight_update(uint64_t session, std::string why, DoneCallback reply) {
  send(reply, [=](ControlPlane& plane) { plane.drop_weight_update(session, why, reply); });
}

}  // namespace unspool
