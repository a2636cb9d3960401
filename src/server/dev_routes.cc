#include "server/dev_routes.h"

#include <algorithm>
#include <array>

namespace unspool {

bool is_dev_route(std::string_view path) {
  // A test holds this list against what the functions register.
  constexpr std::array<std::string_view, 26> kPaths = {"/pause",
                                                       "/resume",
                                                       "/is_paused",
                                                       "/sleep",
                                                       "/wake_up",
                                                       "/is_sleeping",
                                                       "/release_kv_cache_memory",
                                                       "/abort_requests",
                                                       "/reset_prefix_cache",
                                                       "/reset_mm_cache",
                                                       "/reset_encoder_cache",
                                                       "/update_weight_version",
                                                       "/weight_info",
                                                       "/weight_checker",
                                                       "/get_world_size",
                                                       "/init_weight_transfer_engine",
                                                       "/shutdown_weight_transfer_engine",
                                                       "/start_weight_update",
                                                       "/start_draft_weight_update",
                                                       "/update_weights",
                                                       "/finish_weight_update",
                                                       "/areal_pause_generation",
                                                       "/areal_continue_generation",
                                                       "/areal_update_weights",
                                                       "/collective_rpc",
                                                       "/server_info"};
  return std::find(kPaths.begin(), kPaths.end(), path) != kPaths.end();
}

}  // namespace unspool
