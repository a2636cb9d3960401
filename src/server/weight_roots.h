// Where --weight-directory lets weights be read from, and written to.
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
  // lies outside every root; 400 where it is no path. `field`: the argument that it is, for the message.
  ApiResult<std::string> resolve(const std::string& path, const std::string& field) const;

 private:
  std::vector<std::string> roots_;
};

}  // namespace unspool
