// Checks of our own invariants. Nothing a client sends may reach one.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace unspool {

// Thrown by a failed check. The engine catches it at the step boundary: the step's requests fail, the process lives.
class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void check_failed(const char* file, int line, const char* expr, const std::string& detail) {
  throw CheckFailure(fmt::format("{}:{}: check failed: {}{}{}", file, line, expr, detail.empty() ? "" : ": ", detail));
}

// UNSPOOL_CHECK(cond) or UNSPOOL_CHECK(cond, "expected {}, got {}", a, b).
#define UNSPOOL_CHECK(cond, ...)                                                                             \
  do {                                                                                                       \
    if (!(cond)) [[unlikely]]                                                                                \
      ::unspool::check_failed(__FILE__, __LINE__, #cond, std::string{__VA_OPT__(fmt::format(__VA_ARGS__))}); \
  } while (false)

}  // namespace unspool
