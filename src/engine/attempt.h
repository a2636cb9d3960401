// A command must not take the engine with it: what it throws becomes its answer.
#pragma once

#include <exception>

#include "base/log.h"
#include "base/result.h"

namespace unspool {

// The result of `f`, a Status or Result; an internal error where it throws.
template <class F>
auto attempt(const char* what, F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    log_error("{} failed: {}", what, e.what());
    return internal_error(fmt::format("{} failed: {}", what, e.what()));
  }
}

}  // namespace unspool
