// Who may ask. Everything is guarded but a short list, and OPTIONS: stricter than the reference, which guards prefixes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/server.h"

namespace unspool {

class ApiKeyFilter {
 public:
  ApiKeyFilter(std::vector<std::string> keys, std::string root_path, bool open_dev_routes = false);
  // For http::Server::set_filter: answers 401 itself.
  bool operator()(const http::HttpRequest& request, http::Responder& responder) const;
  bool admits(const http::HttpRequest& request) const;

 private:
  bool knows(std::string_view key) const;
  std::vector<std::string> keys_;
  std::string root_path_;
  bool open_dev_routes_;
};

}  // namespace unspool
