#include "server/weight_roots.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace unspool {
namespace {

namespace fs = std::filesystem;

// What does not exist keeps its name; what cannot be resolved is empty, and below nothing.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path out = error ? fs::path() : fs::weakly_canonical(absolute, error);
  return error ? fs::path() : out;
}

bool is_below(const fs::path& path, const fs::path& root) {
  const auto [in_root, in_path] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return in_root == root.end();
}

}  // namespace

ApiResult<std::string> WeightRoots::resolve(const std::string& path, const std::string& field) const {
  if (roots_.empty()) return path;
  std::vector<fs::path> roots;
  for (const std::string& root : roots_) roots.push_back(resolved(root));
  const auto allowed = [&](const fs::path& target) {
    return !target.empty() && std::any_of(roots.begin(), roots.end(), [&](const fs::path& root) {
      return !root.empty() && is_below(target, root);
    });
  };
  const ApiError refusal{403, "PermissionDeniedError", field + " is not below a --weight-directory", field};
  const fs::path directory = resolved(path);
  if (!allowed(directory)) return refusal;
  // A file in it may itself be a link that leads out. Directories that are links are entries too, and not entered.
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->is_symlink(error) && !allowed(resolved(at->path()))) return refusal;
  }
  return directory.string();
}

}  // namespace unspool
