// Chooses the instruction set once, at start.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/kernel_table.h"
#include "base/result.h"

namespace unspool::cpu {

// The best table this processor runs, or the one named `forced` (UNSPOOL_ISA; empty: no wish). Errors name what was
// asked for and what there is. VDPBF16PS is held against plain FMA first, and left alone where a bit differs.
Result<const KernelTable*> select_kernels(std::string_view forced);

// The names of the tables this processor can run, best first.
std::vector<std::string> available_instruction_sets();

// Compares a table's bf16 product with scalar FMA bit for bit on ordinary, subnormal, overflowing and full-range
// values.
bool bf16_product_follows_contract(const KernelTable& table);

}  // namespace unspool::cpu
