// `unspool bench MODEL`: the engine without HTTP, and where its time goes.
#pragma once

#include <string>
#include <vector>

namespace unspool {

// The words after `bench`; the exit status.
int bench_command(std::vector<std::string> words);

}  // namespace unspool
