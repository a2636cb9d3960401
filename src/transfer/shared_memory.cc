#include "transfer/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "weights/quote.h"

namespace unspool {
namespace {

constexpr std::string_view kParam = "update_info.shm_name";
constexpr const char* kFolder = "/dev/shm";
constexpr std::string_view kSenderPrefix = "unspool-";
constexpr size_t kSenderDigits = 32;
// Between its creation and its lock a sender's segment looks like one that was left behind. Those are two calls in a
// row; ten seconds are more than any machine puts between them.
constexpr time_t kSettledSeconds = 10;

Error refusal(const std::string& name, std::string_view message) {
  return invalid_argument(fmt::format("{} {}: {}", kParam, quote_name("/" + name), message), std::string(kParam));
}

// One name in the folder, and nothing that leads elsewhere.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= NAME_MAX && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

std::string_view without_slash(std::string_view name) {
  if (name.starts_with('/')) name.remove_prefix(1);
  return name;
}

bool is_senders_name(std::string_view name) {
  if (!name.starts_with(kSenderPrefix)) return false;
  name.remove_prefix(kSenderPrefix.size());
  return name.size() == kSenderDigits && name.find_first_not_of("0123456789abcdef") == name.npos;
}

// Does not wait: in a folder where everybody makes files a name may be a pipe's, whose open() waits for a writer.
Descriptor open_read_only(const std::string& name) {
  return Descriptor(::shm_open(("/" + name).c_str(), O_RDONLY | O_NONBLOCK, 0));
}

// Takes no lock that stays.
bool is_locked(int fd) {
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(fd, LOCK_UN);
  return false;
}

Status check_owner(const std::string& name, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return refusal(name, "expected a segment of shared memory, got something else");
  if (info.st_uid != ::geteuid()) {
    return refusal(name, fmt::format("expected a segment of user {}, got one of user {}", ::geteuid(), info.st_uid));
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return refusal(name, fmt::format("expected mode 600, got {:o}: others may touch it", info.st_mode & 07777));
  }
  return {};
}

}  // namespace

Result<SharedSegment> SharedSegment::map(const std::string& name) {
  SharedSegment segment;
  segment.name_ = name;
  segment.file_ = open_read_only(name);
  if (!segment.file_.is_open()) return refusal(name, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat info{};
  if (::fstat(segment.file_.get(), &info) != 0) return refusal(name, std::strerror(errno));
  UNSPOOL_TRY(check_owner(name, info));
  UNSPOOL_TRY(segment.map_size(static_cast<size_t>(info.st_size)));
  segment.was_locked_ = is_locked(segment.file_.get());
  // Both sides have it now; nobody else will.
  ::shm_unlink(("/" + name).c_str());
  return segment;
}

Status SharedSegment::map_size(size_t size_bytes) {
  mapping_ = Mapping();  // the old one first: it may be as large
  auto mapped = Mapping::of(file_.get(), size_bytes);
  if (!mapped.ok()) return refusal(name_, "cannot be mapped: " + mapped.error().message);
  mapping_ = std::move(mapped).value();
  return {};
}

Status SharedSegment::follow_size() {
  struct stat info{};
  if (::fstat(file_.get(), &info) != 0) return refusal(name_, std::strerror(errno));
  const auto size = static_cast<size_t>(info.st_size);
  return size == mapping_.size_bytes() && !mapping_.faulted() ? Status() : map_size(size);
}

Status SharedSegment::check_whole() const {
  struct stat info{};
  const bool is_known = ::fstat(file_.get(), &info) == 0;
  if (is_known && static_cast<size_t>(info.st_size) >= mapping_.size_bytes() && !mapping_.faulted()) return {};
  return refusal(name_, fmt::format("expected {} bytes until the reply, got {}: it was cut short while it was read",
                                    mapping_.size_bytes(), is_known ? info.st_size : 0));
}

bool SharedSegment::is_abandoned() {
  const bool locked = is_locked(file_.get());
  return std::exchange(was_locked_, was_locked_ || locked) && !locked;
}

Result<SharedSegment*> SharedMemory::find_or_map(std::string_view given) {
  const std::string name(without_slash(given));
  if (!is_plain_name(name)) return refusal(name, "expected one name, such as /unspool-0123456789abcdef");
  // A name that is there belongs to a segment that is not mapped yet: its sender's next one, if we have one of it.
  auto mapped = SharedSegment::map(name);
  const auto kept = segments_.find(name);
  if (!mapped.ok() && kept != segments_.end()) {
    UNSPOOL_TRY(kept->second.follow_size());
    return &kept->second;
  }
  if (!mapped.ok()) return mapped.error();
  // Without a lock nothing tells that its sender is done with it; one that makes another each time would fill the host.
  std::erase_if(segments_, [](const auto& segment) { return !segment.second.was_locked(); });
  return &segments_.insert_or_assign(name, std::move(mapped).value()).first->second;
}

void SharedMemory::release_abandoned() {
  for (auto at = segments_.begin(); at != segments_.end();) {
    if (!at->second.is_abandoned()) {
      ++at;
      continue;
    }
    log_info("The sender of /{} is gone; its memory is let go", at->first);
    at = segments_.erase(at);
  }
}

void SharedMemory::drop_pages() {
  for (auto& [name, segment] : segments_) segment.drop_pages();
}

void SharedMemory::sweep() {
  std::error_code error;
  for (std::filesystem::directory_iterator at(kFolder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!is_senders_name(name)) continue;
    const Descriptor file = open_read_only(name);
    struct stat info{};
    if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !check_owner(name, info).ok()) continue;
    if (std::time(nullptr) - info.st_mtim.tv_sec < kSettledSeconds || is_locked(file.get())) continue;
    log_info("Removing /{}, which a sender has left behind", name);
    ::shm_unlink(("/" + name).c_str());
  }
}

}  // namespace unspool
