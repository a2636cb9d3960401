// The arguments of a worker's method, bound as Python binds them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/control_request.h"
#include "protocol/field_reader.h"

namespace unspool {

// Python's binding: by place or by name, each name once, and none that the method does not have.
class RpcArguments {
 public:
  RpcArguments(const RpcRequest& request, std::span<const std::string_view> names) : request_(request), names_(names) {
    if (request.args.size() > names.size()) {
      fail(fmt::format("{}() takes {} arguments but {} were given", request.method, names.size(), request.args.size()));
    }
    for (const auto& [name, value] : request.kwargs.members()) {
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end()) {
        fail(fmt::format("{}() got an unexpected keyword argument '{}'", request.method, name));
      } else if (static_cast<size_t>(at - names.begin()) < request.args.size()) {
        fail(fmt::format("{}() got multiple values for argument '{}'", request.method, name));
      }
    }
  }

  // Null where it was not given.
  JsonValue get(std::string_view name) const {
    const size_t place = static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
    return place < request_.args.size() ? request_.args[place] : request_.kwargs[name];
  }

  template <class T, class Coerce>
  void read(std::string_view name, T& out, Coerce coerce) {
    const JsonValue value = get(name);
    if (value.is_null()) return;
    FieldErrors errors;
    if (auto parsed = coerce(value, std::string(name), errors)) out = std::move(*parsed);
    if (!errors.empty() && !error_) error_ = errors.to_api_error();
  }

  void fail(std::string message) {
    if (!error_) error_ = framework_error(std::move(message));
  }
  const MaybeError& error() const { return error_; }

 private:
  const RpcRequest& request_;
  const std::span<const std::string_view> names_;
  MaybeError error_;
};

}  // namespace unspool
