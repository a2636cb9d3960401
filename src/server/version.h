#pragma once

#include <string>
#include <string_view>

namespace unspool {

// The version of the reference whose interface this server speaks.
inline constexpr std::string_view kReferenceVersion = "0.32.0";

std::string_view version();
// "unspool 0.1.0 (avx512_bf16)"
std::string version_line();

}  // namespace unspool
