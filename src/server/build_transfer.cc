#include "server/build_transfer.h"

#include "base/log.h"
#include "transfer/gloo_transport.h"
#include "transfer/ipc_transport.h"
#include "transfer/transfer_python.h"

namespace unspool {
namespace {

std::unique_ptr<WeightTransport> build_transport(TransferBackend backend, const ControlOptions& options) {
  if (backend == TransferBackend::kIpc) return std::make_unique<IpcTransport>();
  return std::make_unique<GlooTransport>(transfer_command(options.transfer_python, {}));
}

}  // namespace

Status check_transfer(const ControlOptions& options) {
  if (parse_transfer_backend(options.weight_transfer_backend) != TransferBackend::kGloo) return {};
  return check_transfer_python(options.transfer_python);
}

std::unique_ptr<WeightTransfer> build_transfer(ServingContext& context) {
  const ControlOptions& options = context.options.control;
  const auto backend = parse_transfer_backend(options.weight_transfer_backend);
  if (!backend || context.staging == nullptr) return nullptr;
  if (!options.dev_routes) {
    log_warning("--weight-transfer-config has no use: the development routes are off (VLLM_SERVER_DEV_MODE=1)");
    return nullptr;
  }
  return std::make_unique<WeightTransfer>(context.engine->control(), *context.staging, *backend,
                                          build_transport(*backend, options), options.weight_transfer_timeout_s,
                                          WeightUpdateMetrics(&context.metrics, context.engine->config()));
}

}  // namespace unspool
