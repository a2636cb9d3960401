// The development routes (docs/control.md): the control plane over HTTP. They exist only where the server was told so.
//
// A handler reads its request, hands the command to the engine, and is done; the reply leaves from the engine's thread
// when the command has run. So no route waits for another, and those that only look answer at once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "engine/control.h"
#include "http/server.h"
#include "server/served_checkpoint.h"
#include "server/weight_roots.h"
#include "server/weight_transfer.h"

namespace unspool {

using AddRoute = std::function<void(const char* method, const char* path, http::Handler handler)>;

// Pause, sleep, wake, aborts, caches. `control` outlives the routes, here and below.
void add_control_routes(const AddRoute& add, EngineControl& control);
// Versions and checksums.
void add_weight_routes(const AddRoute& add, EngineControl& control);
// New weights from a trainer; `transfer` is null where none is configured. And, with prime-rl's body, from a directory.
void add_transfer_routes(const AddRoute& add, EngineControl& control, WeightTransfer* transfer, WeightRoots roots);
// AReaL's pause, resume and update from a directory.
void add_areal_routes(const AddRoute& add, EngineControl& control, WeightRoots roots);
// /collective_rpc.
void add_rpc_route(const AddRoute& add, EngineControl& control, WeightTransfer* transfer, WeightRoots roots,
                   ServedCheckpoint served);

// For --unguarded-dev-routes: whether a path is one of these, or /server_info, which is about more than the control
// plane.
bool is_dev_route(std::string_view path);

}  // namespace unspool
