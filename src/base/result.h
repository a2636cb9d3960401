// Results of operations that a caller, a file or a client can make fail. Our own faults are checks (check.h) instead.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace unspool {

// Who is at fault, in terms that the protocol maps to an HTTP status.
enum class ErrorKind {
  kInvalidArgument,  // 400
  kNotFound,         // 404
  kConflict,         // 409
  kUnavailable,      // 503
  kNotImplemented,   // 501
  kTimeout,          // 504: a peer did not deliver in time
  kInternal,         // 500
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  std::string param;  // the request field at fault, empty where none is
};

inline Error invalid_argument(std::string message, std::string param = {}) {
  return {ErrorKind::kInvalidArgument, std::move(message), std::move(param)};
}
inline Error not_found(std::string message, std::string param = {}) {
  return {ErrorKind::kNotFound, std::move(message), std::move(param)};
}
inline Error internal_error(std::string message) {
  return {ErrorKind::kInternal, std::move(message), {}};
}

// Either a value or an Error. g++ 12 has no std::expected in C++20.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// Leaves the calling function with the error of a failed Result or Status.
#define UNSPOOL_TRY(expr)                                \
  do {                                                   \
    auto unspool_try_ = (expr);                          \
    if (!unspool_try_.ok()) return unspool_try_.error(); \
  } while (false)

#define UNSPOOL_CONCAT_(a, b) a##b
#define UNSPOOL_CONCAT(a, b) UNSPOOL_CONCAT_(a, b)
// Declares `lhs` from a Result, or leaves the calling function with its error.
#define UNSPOOL_ASSIGN(lhs, expr)                                                                           \
  auto UNSPOOL_CONCAT(result_, __LINE__) = (expr);                                                          \
  if (!UNSPOOL_CONCAT(result_, __LINE__).ok()) return std::move(UNSPOOL_CONCAT(result_, __LINE__)).error(); \
  lhs = std::move(UNSPOOL_CONCAT(result_, __LINE__)).value()

}  // namespace unspool
