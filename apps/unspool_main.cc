// The program: `unspool serve MODEL [flags]`, and `unspool bench MODEL`.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "server/bench_command.h"
#include "server/flag_help.h"
#include "server/serve_command.h"
#include "server/version.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? "" : words.front();
  if (command == "bench") return unspool::bench_command({words.begin() + 1, words.end()});
  if (command == "serve") return unspool::serve_command({words.begin() + 1, words.end()});
  if (command == "--version" || command == "-V" || command == "version") {
    fmt::print("{}\n", unspool::version_line());
    return 0;
  }
  if (command == "--help" || command == "-h" || command == "help") {
    fmt::print("{}", unspool::main_help());
    return 0;
  }
  fmt::print(stderr, "{}{}", command.empty() ? "" : fmt::format("unspool: unknown command '{}'\n\n", command),
             unspool::main_help());
  return 2;
}
