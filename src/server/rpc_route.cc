#include "protocol/control_reply.h"
#include "protocol/control_request.h"
#include "server/dev_routes.h"
#include "server/replies.h"
#include "server/worker_methods.h"

namespace unspool {

void add_rpc_route(const AddRoute& add, EngineControl& control, WeightTransfer* transfer, WeightRoots roots,
                   ServedCheckpoint served) {
  const auto methods = std::make_shared<const WorkerMethods>(control, transfer, std::move(roots), std::move(served));
  add("POST", "/collective_rpc",
      [methods](const http::HttpRequest& request, std::shared_ptr<http::Responder> responder) {
        const auto rpc = parse_rpc_request(request.body);
        if (!rpc.ok()) return send_error(*responder, rpc.error());
        methods->call(*rpc, [responder](ApiResult<std::string> result) {
          if (!result.ok()) return send_error(*responder, result.error());
          send_json(*responder, rpc_body(*result));
        });
      });
}

}  // namespace unspool
