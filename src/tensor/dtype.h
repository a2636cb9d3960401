// Element types: the three that the engine computes with, and the rest of what a safetensors file may name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace unspool {

enum class DType : uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  // Known to the file format, so that a file that has them is well-formed; is_float_weight() is false for them.
  kFloat64,
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat8E4M3Fnuz,
  kFloat8E5M2Fnuz,
  kFloat8E8M0,
  kFloat6E2M3,
  kFloat6E3M2,
  kFloat4,
  kBool,
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kComplex64,
};

// Bits, not bytes: the 4- and 6-bit types are packed.
int dtype_bits(DType dtype);
// Bytes of one element; only of types that fill whole bytes.
int dtype_size(DType dtype);
// float32, bfloat16 and float16: what weights, caches and activations may be.
bool is_float_weight(DType dtype);

std::string_view safetensors_name(DType dtype);  // "BF16"
std::string_view torch_name(DType dtype);        // "bfloat16"
std::optional<DType> parse_safetensors_dtype(std::string_view name);
// Accepts "bfloat16" and "torch.bfloat16", and the short forms "float", "half".
std::optional<DType> parse_torch_dtype(std::string_view name);

}  // namespace unspool
