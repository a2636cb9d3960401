// The Python that joins a trainer's process group in our stead: `PYTHON -m unspool.transfer`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace unspool {

// What it is started with: our environment, where PYTHONPATH begins with the directory of the package `unspool` that
// lies beside this program (in the source tree, or where both were installed together).
std::vector<std::string> transfer_environment();
std::vector<std::string> transfer_command(const std::string& python, std::vector<std::string> arguments);
// That directory; empty where the package is not beside us. `program` is our own path.
std::string package_directory(const std::string& program);

// Whether that Python can do it. The error names the Python, and what is missing.
Status check_transfer_python(const std::string& python);

}  // namespace unspool
