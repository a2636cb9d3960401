// Segments of POSIX shared memory that a trainer on this host fills (docs/adr/0006-weights-through-shared-memory.md).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/mapping.h"
#include "base/result.h"

namespace unspool {

// One segment, mapped read-only; its name is gone once it is. Moves, does not copy.
class SharedSegment {
 public:
  // Takes a segment that is this user's own, with no rights for anybody else. `name` is without the slash.
  static Result<SharedSegment> map(const std::string& name);

  std::span<const std::byte> bytes() const { return mapping_.bytes(); }
  void drop_pages() { mapping_.drop_pages(); }
  // Follows a sender that has made it longer or shorter since.
  Status follow_size();
  // Whether all that was mapped has been there all the time.
  Status check_whole() const;
  bool was_locked() const { return was_locked_; }
  // Its lock was held once, and is free now.
  bool is_abandoned();

 private:
  SharedSegment() = default;
  Status map_size(size_t size_bytes);

  std::string name_;
  Descriptor file_;
  Mapping mapping_;
  bool was_locked_ = false;
};

// What is mapped, by name. Segments are kept: pages that are touched for the first time cost more than their bytes. Of
// those that nobody has locked, the last.
class SharedMemory {
 public:
  // A new one, or one that was mapped before. `name` may begin with a slash. Errors are the client's.
  Result<SharedSegment*> find_or_map(std::string_view name);
  void release_all() { segments_.clear(); }
  void release_abandoned();
  // What is mapped is the senders', and counts as ours until the next read of it.
  void drop_pages();
  bool empty() const { return segments_.empty(); }

  // Removes what senders that are gone have left unmapped: names such as only senders give, whose lock is free.
  static void sweep();

 private:
  std::map<std::string, SharedSegment, std::less<>> segments_;
};

}  // namespace unspool
