// Texts made of the flag table.
#pragma once

#include <string>

namespace unspool {

std::string main_help();
std::string serve_help();
// docs/flags.md
std::string flags_markdown();

}  // namespace unspool
