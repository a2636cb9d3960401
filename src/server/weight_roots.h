// Where --weight-directory lets weights be read from.
#pragma once

#include <string>
#include <vector>

#include "protocol/api_error.h"

namespace unspool {

class WeightRoots {
 public:
  // None: anywhere.
  explicit WeightRoots(std::vector<std::string> roots = {}) : roots_(std::move(roots)) {}
  // The directory with its links resolved, so that what was checked is what is read. 403 where it, or a file in it,
  // lies outside every root; `field` is what the client calls it.
  ApiResult<std::string> resolve(const std::string& path, const std::string& field = "weights_path") const;

 private:
  std::vector<std::string> roots_;
};

}  // namespace unspool
