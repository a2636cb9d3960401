// Which handler answers a request.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "http/server.h"

namespace unspool::http {

class Router {
 public:
  void add(std::string method, std::string path, Handler handler);

  struct Match {
    const Handler* handler = nullptr;  // null: no such path, or not with that method
    std::string_view route;            // the path as registered, empty where there is none
    std::string allow;                 // the methods the path has, where the request's is another
  };
  // The match points into the router and into nothing of the arguments.
  Match find(const std::string& method, const std::string& path) const;

 private:
  std::map<std::string, std::map<std::string, Handler>> routes_;  // path, then method
};

}  // namespace unspool::http
