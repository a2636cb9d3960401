// Base64 (RFC 4648, the standard alphabet).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace unspool {

// nullopt where `text` is not base64. The padding at its end may be missing.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace unspool
