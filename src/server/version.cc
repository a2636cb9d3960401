#include "server/version.h"

#include <fmt/format.h>

#include <cstdlib>

#include "backend/cpu/isa.h"

namespace unspool {

std::string_view version() {
  return UNSPOOL_VERSION;
}

std::string version_line() {
  const char* forced = std::getenv("UNSPOOL_ISA");
  const auto kernels = cpu::select_kernels(forced == nullptr ? "" : forced);
  return fmt::format("unspool {} ({})", version(), kernels.ok() ? (*kernels)->name : kernels.error().message);
}

}  // namespace unspool
