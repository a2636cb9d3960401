// Backends by instruction set and number of threads, made once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "../support/bits.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa.h"
#include "backend/reference/reference.h"

namespace unspool::cpu {

// `isa` empty: the best one.
inline CpuBackend& backend_of(const std::string& isa, int threads) {
  struct Made {
    ThreadPool pool;
    std::unique_ptr<CpuBackend> backend;
    explicit Made(int n) : pool(n) {}
  };
  static std::map<std::pair<std::string, int>, std::unique_ptr<Made>> made;
  auto& entry = made[{isa, threads}];
  if (entry == nullptr) {
    entry = std::make_unique<Made>(threads);
    entry->backend = CpuBackend::create(entry->pool, isa).value();
  }
  return *entry->backend;
}

// f(backend, name) for every instruction set on one thread, and the best on two and three.
template <class F>
void for_every_backend(F&& f) {
  for (const std::string& isa : available_instruction_sets()) f(backend_of(isa, 1), isa + " on 1 thread");
  for (const int threads : {2, 3}) f(backend_of("", threads), "the best on " + std::to_string(threads) + " threads");
}

inline constexpr DType kServedTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32};

}  // namespace unspool::cpu
