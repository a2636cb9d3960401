#include "transfer/growing_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace unspool {

Result<GrowingMemory> GrowingMemory::create() {
  GrowingMemory memory;
  memory.file_ = Descriptor(::memfd_create("unspool-gloo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Whoever has the descriptor may write it, but not take a page from under us.
  if (!memory.file_.is_open() || ::fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return internal_error(fmt::format("no memory to share: {}", std::strerror(errno)));
  }
  return memory;
}

Status GrowingMemory::grow(size_t size_bytes) {
  if (size_bytes <= mapping_.size_bytes()) return {};
  const auto failed = [&](const std::string& why) {
    return internal_error(fmt::format("{} bytes of shared memory: {}", size_bytes, why));
  };
  if (::ftruncate(fd(), static_cast<off_t>(size_bytes)) != 0) return failed(std::strerror(errno));
  auto mapped = Mapping::of(fd(), size_bytes);
  if (!mapped.ok()) return failed(mapped.error().message);
  mapping_ = std::move(mapped).value();
  return {};
}

void GrowingMemory::drop_pages() {
  if (!bytes().empty())
    ::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes().size()));
}

}  // namespace unspool
