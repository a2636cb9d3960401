// Base64 (RFC 4648, the standard alphabet).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace unspool {

// With padding.
std::string base64_encode(std::span<const std::byte> bytes);
// nullopt where `text` is not base64. The padding at its end may be missing.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace unspool
