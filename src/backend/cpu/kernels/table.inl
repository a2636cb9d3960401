// The bodies and the table, once an instruction set: the including file has opened its namespace and included its
// vec_*.inl.

// clang-format off: each builds on those before it
#include "backend/cpu/kernels/product.inl"
#include "backend/cpu/kernels/elementwise.inl"
#include "backend/cpu/kernels/vocab.inl"
#include "backend/cpu/kernels/pack.inl"
#include "backend/cpu/kernels/attention.inl"
#include "backend/cpu/kernels/limits.inl"
// clang-format on

static constexpr KernelTable make_table(const char* name) {
  return {.name = name,
          .max_rows = kMaxRows,
          .max_panels = kMaxPanels,
          .product = {product<Bf16Kind>, product<F16Kind>, product<F32Kind>},
          .wide_product = product<WideBf16Kind, Fetch::kOwn, kWidePanels>,
          .epilogue = epilogue,
          .silu_mul = silu_mul,
          .gelu_tanh_mul = gelu_tanh_mul,
          .softcap = softcap,
          .add_weighted = add_weighted,
          .softmax = softmax,
          .sigmoid = sigmoid,
          .rms_norm = rms_norm,
          .rotate = rotate,
          .to_bf16 = to_bf16,
          .to_bf16x2 = to_bf16x2,
          .to_f16 = to_f16,
          .pack = {{pack<Bf16Element, Bf16Element>, pack<Bf16Element, F16Element>, pack<Bf16Element, F32Element>},
                   {pack<F16Element, Bf16Element>, pack<F16Element, F16Element>, pack<F16Element, F32Element>},
                   {pack<F32Element, Bf16Element>, pack<F32Element, F16Element>, pack<F32Element, F32Element>}},
          .attention = attention,
          .attention_parts = attention_parts,
          .merge_parts = merge_parts,
          .only_bf16_products = only_products<Bf16Kind, 2>,
          .only_f32_products = only_products<F32Kind, 1>,
          .only_reads = only_reads,
          .vocab = {.block_stats = block_stats,
                    .count_at_least = count_at_least,
                    .argmax = argmax,
                    .exp_shifted = exp_shifted,
                    .scale = scale,
                    .divide = divide,
                    .select_at_least = select_at_least,
                    .no_nan_or_positive_inf = no_nan_or_positive_inf}};
}
