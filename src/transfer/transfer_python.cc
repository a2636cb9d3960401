#include "transfer/transfer_python.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/descriptor.h"
#include "transfer/child.h"
#include "transfer/interrupt.h"

namespace unspool {
namespace {

namespace fs = std::filesystem;

// The import of torch takes some seconds from a cold disk.
constexpr double kCheckSeconds = 120;

bool holds_package(const fs::path& directory) {
  std::error_code error;
  return fs::is_directory(directory / "unspool" / "transfer", error) ||
         fs::is_regular_file(directory / "unspool" / "transfer.py", error);
}

std::string_view last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
}

// Up to its end; what comes after some thousand bytes says nothing new.
Result<std::string> read_all(int fd, const TransferLimit& limit) {
  constexpr size_t kKept = 16 * 1024;
  std::string text;
  char piece[4096];
  while (true) {
    UNSPOOL_TRY(limit.wait(fd, POLLIN, "the check ended"));
    const ssize_t got = ::read(fd, piece, sizeof(piece));
    if (got == 0) return text;
    if (got < 0 && errno != EINTR) return internal_error(fmt::format("read: errno {}", errno));
    text.append(piece, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (text.size() > kKept) text.erase(0, text.size() - kKept);
  }
}

}  // namespace

std::string package_directory(const std::string& program) {
  // Installed: unspool/bin/unspool in the package; built: build/PRESET/unspool in the tree, which has python/.
  fs::path directory = fs::path(program).parent_path();
  for (int level = 0; level < 3 && directory.has_relative_path(); ++level) {
    directory = directory.parent_path();
    if (holds_package(directory)) return directory;
    if (holds_package(directory / "python")) return directory / "python";
  }
  return {};
}

std::vector<std::string> transfer_environment() {
  std::error_code error;
  const std::string package = package_directory(fs::read_symlink("/proc/self/exe", error));
  constexpr std::string_view kVariable = "PYTHONPATH=";
  std::vector<std::string> out;
  std::string path = package;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with(kVariable) || package.empty()) {
      out.emplace_back(text);
    } else if (text.size() > kVariable.size()) {
      path += fmt::format(":{}", text.substr(kVariable.size()));
    }
  }
  if (!package.empty()) out.push_back(std::string(kVariable) + path);
  // Or else `-m` looks into our working directory first, where anything may be called torch.py.
  out.emplace_back("PYTHONSAFEPATH=1");
  return out;
}

std::vector<std::string> transfer_command(const std::string& python, std::vector<std::string> arguments) {
  std::vector<std::string> out = {python, "-m", "unspool.transfer"};
  out.insert(out.end(), std::make_move_iterator(arguments.begin()), std::make_move_iterator(arguments.end()));
  return out;
}

Status check_transfer_python(const std::string& python) {
  const auto refusal = [&](std::string_view why) {
    return invalid_argument(fmt::format(
        "--weight-transfer-config: gloo needs a Python with torch and the package unspool, and {} (--transfer-python) "
        "is none: {}",
        python, why));
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return internal_error(fmt::format("pipe: errno {}", errno));
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  auto child = Child::spawn(transfer_command(python, {"--check"}), transfer_environment(), {}, writing.get());
  if (!child.ok()) return refusal(child.error().message);
  writing = Descriptor();  // so that the child's end is the last
  const Interrupt nobody;
  const TransferLimit limit(kCheckSeconds, nobody);
  const auto said = read_all(reading.get(), limit);
  if (!said.ok()) return refusal(fmt::format("its check has not ended within {} s", kCheckSeconds));
  // Its output has ended, and so has it, or is about to.
  std::optional<int> status;
  while (!(status = child->wait_status()) && limit.remaining_s() > 0) ::poll(nullptr, 0, 1);
  if (!status) return refusal("its check does not end");
  if (*status == 0) return {};
  return refusal(said->empty() ? describe_exit(*status) : std::string(last_line(*said)));
}

}  // namespace unspool
