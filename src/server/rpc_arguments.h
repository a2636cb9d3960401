// The arguments of a method that is called by /collective_rpc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/control_request.h"
#include "protocol/field_reader.h"

namespace unspool {

// Python's binding: by place or by name, each name once, and none that the method does not have. `request` and `names`
// outlive it.
class RpcArguments {
 public:
  RpcArguments(const RpcRequest& request, std::span<const std::string_view> names);

  // Null where it was not given.
  JsonValue get(std::string_view name) const;

  // Leaves `out` where nothing was given. coerce(value, loc, errors) is one of field_reader.h's.
  template <class T, class Coerce>
  void read(std::string_view name, T& out, Coerce coerce) {
    const JsonValue value = get(name);
    if (value.is_null()) return;
    FieldErrors errors;
    if (auto parsed = coerce(value, std::string(name), errors)) out = std::move(*parsed);
    if (!errors.empty() && !error_) error_ = errors.to_api_error();
  }

  // The first error stays.
  void fail(std::string message);
  const MaybeError& error() const { return error_; }

 private:
  const RpcRequest& request_;
  const std::span<const std::string_view> names_;
  MaybeError error_;
};

}  // namespace unspool
