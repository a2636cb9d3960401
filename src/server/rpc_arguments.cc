#include "server/rpc_arguments.h"

#include <fmt/format.h>

#include <algorithm>

namespace unspool {

RpcArguments::RpcArguments(const RpcRequest& request, std::span<const std::string_view> names)
    : request_(request), names_(names) {
  if (request.args.size() > names.size()) {
    fail(fmt::format("{}() takes {} arguments but {} were given", request.method, names.size(), request.args.size()));
  }
  for (const auto& [name, value] : request.kwargs.members()) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      fail(fmt::format("{}() got an unexpected keyword argument '{}'", request.method, name));
    } else if (static_cast<size_t>(at - names.begin()) < request.args.size()) {
      fail(fmt::format("{}() got multiple values for argument '{}'", request.method, name));
    }
  }
}

JsonValue RpcArguments::get(std::string_view name) const {
  const auto place = static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  return place < request_.args.size() ? request_.args[place] : request_.kwargs[name];
}

void RpcArguments::fail(std::string message) {
  if (!error_) error_ = framework_error(std::move(message));
}

}  // namespace unspool
