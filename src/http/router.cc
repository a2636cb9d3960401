#include "http/router.h"

#include "http/target.h"

namespace unspool::http {

void Router::add(std::string method, std::string path, Handler handler) {
  routes_[without_trailing_slash(std::move(path))][std::move(method)] = std::move(handler);
}

Router::Match Router::find(const std::string& method, const std::string& path) const {
  const auto route = routes_.find(path);
  if (route == routes_.end()) return {};
  Match match;
  match.route = route->first;
  const auto handler = route->second.find(method);
  if (handler != route->second.end()) {
    match.handler = &handler->second;
    return match;
  }
  for (const auto& [allowed, unused] : route->second) match.allow += (match.allow.empty() ? "" : ", ") + allowed;
  return match;
}

}  // namespace unspool::http
