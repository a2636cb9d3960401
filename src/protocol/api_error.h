// What a client hears when its request fails: status, and the body {"error":{"message","type","param","code"}}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/result.h"

namespace unspool {

struct ApiError {
  int status = 400;
  std::string type = "BadRequestError";
  std::string message;
  std::string param;  // empty: null
};

// nullopt: nothing to object to.
using MaybeError = std::optional<ApiError>;

// Either a value or what to tell the client.
template <class T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  ApiResult(ApiError error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const ApiError& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, ApiError> state_;
};

// 400 BadRequestError. A param or value is named at the end of the message: "... (parameter=n, value=0)".
ApiError bad_request(std::string message);
ApiError invalid_parameter(std::string message, std::string param);
ApiError invalid_parameter(std::string message, std::string param, std::string_view value);
// Without the suffix: errors that the reference words itself.
ApiError bad_request_for(std::string message, std::string param);
// 400 "Bad Request": what the reference's framework refuses.
ApiError framework_error(std::string message, std::string param = {});
ApiError internal_server_error();
// An error that came from the engine.
ApiError from_engine_error(const Error& error);

// Hides memory addresses, traceback lines and file paths.
std::string sanitize_message(std::string_view message);

// The compact body of a reply.
std::string error_body(const ApiError& error);
// The same inside a stream, where the reference writes Python's default JSON: spaces, and \uXXXX beyond ASCII.
std::string stream_error_body(const ApiError& error);

}  // namespace unspool
