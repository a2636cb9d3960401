// Arrays as the wire carries them: NumPy's file format, in base64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "json/json_writer.h"
#include "request/outputs.h"

namespace unspool {

// The bytes of what numpy.save() writes of a C-ordered array: version 1.0 of the format. `descr` is the dtype's
// ("|u1").
std::string npy_file(std::string_view descr, std::span<const int64_t> shape, std::span<const std::byte> data);

// A choice's `routed_experts`: null where there are none.
void write_routed_experts(JsonWriter& w, const std::optional<RoutedExperts>& routed);

}  // namespace unspool
