// The checkpoint that the server was started on, whatever weights came later.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"
#include "weights/dummy_stream.h"

namespace unspool {

struct ServedCheckpoint {
  std::string path;
  DType dtype = DType::kBFloat16;         // what it is served as
  std::vector<DummyTensor> dummies = {};  // served in its place

  // Whether any of the named weights, given by their SHA-256, is not the file's.
  Result<bool> differs(const std::map<std::string, std::string>& checksums) const;
};

}  // namespace unspool
