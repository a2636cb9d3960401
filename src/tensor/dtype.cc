#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace unspool {
namespace {

struct DTypeInfo {
  DType dtype;
  int bits;
  std::string_view safetensors;
  std::string_view torch;
};

// In the order of the enumeration, which indexes it.
constexpr std::array kInfos = {
    DTypeInfo{DType::kFloat32, 32, "F32", "float32"},
    DTypeInfo{DType::kBFloat16, 16, "BF16", "bfloat16"},
    DTypeInfo{DType::kFloat16, 16, "F16", "float16"},
    DTypeInfo{DType::kFloat64, 64, "F64", "float64"},
    DTypeInfo{DType::kFloat8E4M3, 8, "F8_E4M3", "float8_e4m3fn"},
    DTypeInfo{DType::kFloat8E5M2, 8, "F8_E5M2", "float8_e5m2"},
    DTypeInfo{DType::kFloat8E4M3Fnuz, 8, "F8_E4M3FNUZ", "float8_e4m3fnuz"},
    DTypeInfo{DType::kFloat8E5M2Fnuz, 8, "F8_E5M2FNUZ", "float8_e5m2fnuz"},
    DTypeInfo{DType::kFloat8E8M0, 8, "F8_E8M0", "float8_e8m0fnu"},
    DTypeInfo{DType::kFloat6E2M3, 6, "F6_E2M3", "float6_e2m3fn"},
    DTypeInfo{DType::kFloat6E3M2, 6, "F6_E3M2", "float6_e3m2fn"},
    DTypeInfo{DType::kFloat4, 4, "F4", "float4_e2m1fn_x2"},
    DTypeInfo{DType::kBool, 8, "BOOL", "bool"},
    DTypeInfo{DType::kUInt8, 8, "U8", "uint8"},
    DTypeInfo{DType::kInt8, 8, "I8", "int8"},
    DTypeInfo{DType::kUInt16, 16, "U16", "uint16"},
    DTypeInfo{DType::kInt16, 16, "I16", "int16"},
    DTypeInfo{DType::kUInt32, 32, "U32", "uint32"},
    DTypeInfo{DType::kInt32, 32, "I32", "int32"},
    DTypeInfo{DType::kUInt64, 64, "U64", "uint64"},
    DTypeInfo{DType::kInt64, 64, "I64", "int64"},
    DTypeInfo{DType::kComplex64, 64, "C64", "complex64"},
};

constexpr bool indexed_by_enumeration() {
  for (size_t i = 0; i < kInfos.size(); ++i) {
    if (kInfos[i].dtype != static_cast<DType>(i)) return false;
  }
  return kInfos.size() == static_cast<size_t>(DType::kComplex64) + 1;
}
static_assert(indexed_by_enumeration());

const DTypeInfo& info(DType dtype) {
  return kInfos[static_cast<size_t>(dtype)];
}

}  // namespace

int dtype_bits(DType dtype) {
  return info(dtype).bits;
}

int dtype_size(DType dtype) {
  UNSPOOL_CHECK(info(dtype).bits % 8 == 0, "expected a dtype of whole bytes, got {}", info(dtype).safetensors);
  return info(dtype).bits / 8;
}

bool is_float_weight(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

std::string_view safetensors_name(DType dtype) {
  return info(dtype).safetensors;
}

std::string_view torch_name(DType dtype) {
  return info(dtype).torch;
}

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  for (const DTypeInfo& entry : kInfos) {
    if (entry.safetensors == name) return entry.dtype;
  }
  return std::nullopt;
}

std::optional<DType> parse_torch_dtype(std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  if (name == "float") return DType::kFloat32;
  if (name == "half") return DType::kFloat16;
  for (const DTypeInfo& entry : kInfos) {
    if (entry.torch == name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace unspool
