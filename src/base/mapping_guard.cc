#include "base/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

namespace unspool {

// The handler looks at these while any thread may be adding one, and can take no lock: a slot is never freed, only used
// again.
struct MappingGuard::Slot {
  std::atomic<uintptr_t> begin = 0;  // 0: nothing is guarded
  std::atomic<size_t> size_bytes = 0;
  std::atomic<bool> faulted = false;
  Slot* next = nullptr;
};

// One for the process, as its signal handlers are.
struct GuardedMappings {
  using Slot = MappingGuard::Slot;
  std::mutex mutex;  // of those who take a slot
  std::atomic<Slot*> first = nullptr;
  struct sigaction previous = {};

  static GuardedMappings& get() {
    // Never destroyed: a fault can come while the process ends.
    static GuardedMappings* const all = new GuardedMappings;
    return *all;
  }

  GuardedMappings() {
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
  }

  Slot* take(uintptr_t begin, size_t size_bytes) {
    const std::lock_guard lock(mutex);
    Slot* slot = first.load();
    while (slot != nullptr && slot->begin.load() != 0) slot = slot->next;
    const bool is_new = slot == nullptr;
    if (is_new) slot = new Slot;
    slot->size_bytes = size_bytes;
    slot->faulted = false;
    slot->begin = begin;
    if (is_new) {
      slot->next = first.load();
      first = slot;
    }
    return slot;
  }

  // Of the mapping that holds the address; false where it is nobody's, or the system has no zeros to give.
  bool replace_with_zeros(uintptr_t address) const {
    for (Slot* slot = first.load(); slot != nullptr; slot = slot->next) {
      const uintptr_t begin = slot->begin.load();
      const size_t size_bytes = slot->size_bytes.load();
      if (begin == 0 || address - begin >= size_bytes) continue;
      void* const zeros = ::mmap(reinterpret_cast<void*>(begin), size_bytes, PROT_READ,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      slot->faulted = true;
      return zeros != MAP_FAILED;
    }
    return false;
  }

  // As if this handler had never been there.
  void pass_on(int signal, siginfo_t* info, void* context) const {
    if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
    if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
    // The fault comes again upon return, and ends the process; a signal that somebody sent has to be sent again.
    struct sigaction fallback = {};
    fallback.sa_handler = SIG_DFL;
    sigaction(SIGBUS, &fallback, nullptr);
    if (info->si_code <= 0) raise(signal);
  }

  static void handle(int signal, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    const GuardedMappings& all = get();
    // BUS_ADRERR: there is no such page in the file. Others are faults of the memory itself.
    const bool is_ours =
        info->si_code == BUS_ADRERR && all.replace_with_zeros(reinterpret_cast<uintptr_t>(info->si_addr));
    if (!is_ours) all.pass_on(signal, info, context);
    errno = saved_errno;
  }
};

MappingGuard::MappingGuard(const void* data, size_t size_bytes) {
  if (size_bytes > 0) slot_ = GuardedMappings::get().take(reinterpret_cast<uintptr_t>(data), size_bytes);
}

MappingGuard::MappingGuard(MappingGuard&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}

MappingGuard& MappingGuard::operator=(MappingGuard&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

MappingGuard::~MappingGuard() {
  if (slot_ != nullptr) slot_->begin = 0;
}

bool MappingGuard::faulted() const {
  return slot_ != nullptr && slot_->faulted;
}

}  // namespace unspool
