// What /collective_rpc can call: the methods of the reference's workers that trainers use, as commands of the engine.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "engine/control.h"
#include "protocol/api_error.h"
#include "protocol/control_request.h"
#include "server/served_checkpoint.h"
#include "server/weight_roots.h"
#include "server/weight_transfer.h"

namespace unspool {

// Once, from any thread: the result as JSON, shaped as the reference passes it on (lists, objects and null as they are,
// anything else as Python's str() has it).
using RpcReply = std::function<void(ApiResult<std::string> result)>;

class WorkerMethods {
 public:
  // `transfer` is null where none is configured. `served`: what reload_weights loads where it is told nothing, whatever
  // was loaded in between.
  WorkerMethods(EngineControl& control, WeightTransfer* transfer, WeightRoots roots, ServedCheckpoint served)
      : control_(control),
        transfer_(transfer),
        roots_(std::move(roots)),
        served_(std::move(served)),
        loads_dummies_(!served_.dummies.empty()) {}
  void call(const RpcRequest& request, RpcReply reply) const;

 private:
  struct Method;
  static const Method kMethods[];

  void reload_weights(const RpcRequest& request, RpcReply reply) const;
  void sleep(const RpcRequest& request, RpcReply reply) const;
  void wake_up(const RpcRequest& request, RpcReply reply) const;
  void compute_weight_checksums(const RpcRequest& request, RpcReply reply) const;
  void check_weights_changed(const RpcRequest& request, RpcReply reply) const;
  void reset_weights(const RpcRequest& request, RpcReply reply) const;
  void save_sharded_state(const RpcRequest& request, RpcReply reply) const;
  void discard(const RpcRequest& request, RpcReply reply) const;
  void update_config(const RpcRequest& request, RpcReply reply) const;
  void get_supported_tasks(const RpcRequest& request, RpcReply reply) const;
  void list_loras(const RpcRequest& request, RpcReply reply) const;
  void report_device_id(const RpcRequest& request, RpcReply reply) const;
  void nothing(const RpcRequest& request, RpcReply reply) const;
  // worker_methods_transfer.cc
  void init_transfer(const RpcRequest& request, RpcReply reply) const;
  void shut_down_transfer(const RpcRequest& request, RpcReply reply) const;
  void start_update(const RpcRequest& request, RpcReply reply) const;
  void start_draft_update(const RpcRequest& request, RpcReply reply) const;
  void update_weights(const RpcRequest& request, RpcReply reply) const;
  void update_over_nccl(const RpcRequest& request, RpcReply reply) const;
  void finish_update(const RpcRequest& request, RpcReply reply) const;
  void profile(const RpcRequest& request, RpcReply reply) const;
  void inspection(const RpcRequest& request, RpcReply reply) const;
  void lora(const RpcRequest& request, RpcReply reply) const;

  EngineControl& control_;
  WeightTransfer* const transfer_;
  const WeightRoots roots_;
  const ServedCheckpoint served_;
  mutable std::atomic<bool> loads_dummies_;  // until update_config() sets another load_format
};

}  // namespace unspool
