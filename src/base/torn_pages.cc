#include "base/torn_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <utility>

namespace unspool {
namespace {

constexpr int kNumSlots = 4096;  // shards of the largest checkpoints are hundreds, and two are open at once

struct Slot {
  std::atomic<uintptr_t> begin = 0;  // 0: free
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> torn = false;
};

// A signal handler sees nothing but globals, and may take no lock.
std::array<Slot, kNumSlots> slots;
std::mutex slots_mutex;  // of those who take and give back slots
std::once_flag installed;
struct sigaction previous;
uintptr_t page_bytes;

// From the page on to the end of the range: where one page is missing the later ones are too.
bool replace_by_zeros(uintptr_t address) {
  for (Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load();
    const uintptr_t end = slot.end.load();
    if (begin == 0 || address < begin || address >= end) continue;
    const uintptr_t page = address / page_bytes * page_bytes;
    slot.torn = true;
    return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
                  0) != MAP_FAILED;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (replace_by_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  // The read is tried again, and ends as it would have without us.
  ::sigaction(SIGBUS, &previous, nullptr);
}

void install() {
  page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &previous);
}

}  // namespace

TornPagesGuard::TornPagesGuard(void* begin, size_t size_bytes) {
  std::call_once(installed, install);
  const std::lock_guard lock(slots_mutex);
  for (int i = 0; i < kNumSlots; ++i) {
    Slot& slot = slots[static_cast<size_t>(i)];
    if (slot.begin != 0) continue;
    slot.torn = false;
    slot.end = reinterpret_cast<uintptr_t>(begin) + size_bytes;
    slot.begin = reinterpret_cast<uintptr_t>(begin);
    slot_ = i;
    return;
  }
}

TornPagesGuard::TornPagesGuard(TornPagesGuard&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

TornPagesGuard& TornPagesGuard::operator=(TornPagesGuard&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

TornPagesGuard::~TornPagesGuard() {
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].begin = 0;
}

bool TornPagesGuard::torn() const {
  return slot_ >= 0 && slots[static_cast<size_t>(slot_)].torn;
}

}  // namespace unspool
