// The workers' methods for weight transfer.
#include <fmt/format.h>

#include "server/rpc_arguments.h"
#include "server/transfer_errors.h"
#include "server/worker_methods.h"

namespace unspool {
namespace {

constexpr auto kFlag = [](const JsonValue& v, const std::string& loc, FieldErrors& e) {
  return coerce_bool(v, loc, e);
};

DoneCallback none(RpcReply reply) {
  return [reply = std::move(reply)](Status done) {
    reply(done.ok() ? ApiResult<std::string>("null") : transfer_error(done.error()));
  };
}

ApiError not_configured() {
  return worker_error(kTransferNotConfigured);
}

}  // namespace

void WorkerMethods::init_transfer(const RpcRequest& request, RpcReply reply) const {
  if (transfer_ == nullptr) return reply(not_configured());
  static constexpr std::string_view kNames[] = {"init_info"};
  RpcArguments arguments(request, kNames);
  const JsonValue info = arguments.get("init_info");
  if (!info.is_object()) arguments.fail("init_weight_transfer_engine() expects init_info, an object");
  if (arguments.error()) return reply(*arguments.error());
  transfer_->init(parse_init_info(transfer_->backend(), info), none(std::move(reply)));
}

void WorkerMethods::shut_down_transfer(const RpcRequest&, RpcReply reply) const {
  if (transfer_ == nullptr) return reply(std::string("null"));
  transfer_->shut_down(none(std::move(reply)));
}

void WorkerMethods::start_update(const RpcRequest& request, RpcReply reply) const {
  if (transfer_ == nullptr) return reply(not_configured());
  static constexpr std::string_view kNames[] = {"is_checkpoint_format", "partial"};
  RpcArguments arguments(request, kNames);
  bool is_checkpoint_format = true;
  bool partial = false;
  arguments.read("is_checkpoint_format", is_checkpoint_format, kFlag);
  arguments.read("partial", partial, kFlag);
  if (!is_checkpoint_format) {
    arguments.fail(
        fmt::format("{}(): expected is_checkpoint_format true, got false: weights are taken by the names "
                    "and shapes of a Hugging Face checkpoint",
                    request.method));
  }
  if (arguments.error()) return reply(*arguments.error());
  transfer_->start(partial, none(std::move(reply)));
}

void WorkerMethods::start_draft_update(const RpcRequest&, RpcReply reply) const {
  reply(transfer_ == nullptr ? not_configured() : worker_error(kNoDraftModel));
}

void WorkerMethods::update_weights(const RpcRequest& request, RpcReply reply) const {
  if (transfer_ == nullptr) return reply(not_configured());
  static constexpr std::string_view kNames[] = {"update_info"};
  RpcArguments arguments(request, kNames);
  const JsonValue info = arguments.get("update_info");
  if (!info.is_object() && !info.is_array()) {
    arguments.fail(fmt::format("{}() expects update_info, an object or a list of them", request.method));
  }
  if (arguments.error()) return reply(*arguments.error());
  transfer_->update(parse_update_info(transfer_->backend(), info), none(std::move(reply)), parse_session_name(info));
}

void WorkerMethods::update_over_nccl(const RpcRequest& request, RpcReply reply) const {
  std::string message = fmt::format("{}: there is no NCCL here: {}", request.method, kTransferBackends);
  if (transfer_ == nullptr || !control_.status().update_open) return reply(bad_request(std::move(message)));
  transfer_->update(invalid_argument(std::move(message)), none(std::move(reply)));  // a failed update ends its session
}

void WorkerMethods::finish_update(const RpcRequest& request, RpcReply reply) const {
  if (transfer_ == nullptr) return reply(not_configured());
  const RpcArguments arguments(request, {});
  if (arguments.error()) return reply(*arguments.error());
  transfer_->finish(std::nullopt, none(std::move(reply)));
}

}  // namespace unspool
