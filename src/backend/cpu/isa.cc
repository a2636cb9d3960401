#include "backend/cpu/isa.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <random>

#include "base/log.h"
#include "threading/thread_pool.h"

namespace unspool::cpu {
namespace {

struct Candidate {
  const KernelTable& (*table)();
  bool supported;
};

// clang's builtin does not know its name.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

std::vector<Candidate> candidates() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return {{avx512_bf16_kernels, avx512 && __builtin_cpu_supports("avx512bf16") > 0},
          {avx512_kernels, avx512},
          {avx2_kernels, avx2},
          {scalar_kernels, true}};
}

// Finite bf16 bit patterns of every class, by turns.
uint16_t pattern(std::mt19937& random, int kind) {
  const uint32_t sign_and_mantissa = random() & 0x807fu;
  uint32_t exponent = 0;
  switch (kind) {
    case 0:  // near one: ordinary activations and weights
      exponent = 117 + random() % 20;
      break;
    case 1:  // subnormal and tiny
      exponent = random() % 24;
      break;
    case 2:  // products overflow
      exponent = 180 + random() % 75;
      break;
    default:
      exponent = random() % 255;
      break;
  }
  return static_cast<uint16_t>(sign_and_mantissa | exponent << 7);
}

}  // namespace

bool bf16_product_follows_contract(const KernelTable& table) {
  constexpr int kSteps = 8, kRounds = 2000;
  const FloatModeGuard mode;
  std::mt19937 random(20261129);
  alignas(64) uint32_t a[kSteps], b[kSteps * kPanel];
  alignas(64) float got[kPanel], want[kPanel];
  for (int round = 0; round < kRounds; ++round) {
    const int kind = round % 4;
    auto pair = [&] {
      return static_cast<uint32_t>(pattern(random, kind)) | static_cast<uint32_t>(pattern(random, kind)) << 16;
    };
    for (auto& x : a) x = pair();
    for (auto& x : b) x = pair();
    const void* panel = b;
    auto product = [&](const KernelTable& kernels, float* c) {
      kernels.product[static_cast<int>(Stored::kBf16)]({.a = a,
                                                        .a_stride = kSteps,
                                                        .rows = 1,
                                                        .b = &panel,
                                                        .b_stride = 1,
                                                        .steps = kSteps,
                                                        .steps_per_chunk = kSteps,
                                                        .next_bytes = 0,
                                                        .ahead = nullptr,
                                                        .panels = 1,
                                                        .c = c,
                                                        .c_stride = kPanel});
    };
    product(table, got);
    product(scalar_kernels(), want);
    for (int i = 0; i < kPanel; ++i) {
      if (want[i] != want[i] && got[i] != got[i]) continue;  // inf - inf: which NaN is nobody's business
      if (std::bit_cast<uint32_t>(want[i]) != std::bit_cast<uint32_t>(got[i])) return false;
    }
  }
  return true;
}

std::vector<std::string> available_instruction_sets() {
  std::vector<std::string> names;
  for (const auto& c : candidates())
    if (c.supported) names.emplace_back(c.table().name);
  return names;
}

Result<const KernelTable*> select_kernels(std::string_view forced) {
  for (const auto& c : candidates()) {
    if (!c.supported) continue;
    const KernelTable& table = c.table();
    if (!forced.empty() && forced != table.name) continue;
    if (bf16_product_follows_contract(table)) return &table;
    if (!forced.empty())
      return internal_error(
          fmt::format("{} does not give the bits of fused multiply-adds on this processor", table.name));
    log_warning("{} does not give the bits of fused multiply-adds on this processor; it is not used", table.name);
  }
  return invalid_argument(
      fmt::format("UNSPOOL_ISA: expected one of {}, got {}", fmt::join(available_instruction_sets(), ", "), forced));
}

}  // namespace unspool::cpu
