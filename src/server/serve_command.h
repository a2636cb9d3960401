// `unspool serve`.
#pragma once

#include <string>
#include <vector>

namespace unspool {

// Serves until told to stop; the process's exit status: 0, 1 for what failed, 2 for a wrong command line.
int serve_command(const std::vector<std::string>& words);

}  // namespace unspool
