// Sequences of queries, keys and values, run through a backend's cache in any schedule, and through the reference.
#pragma once

#include <numeric>
#include <string>

#include "backend_fixture.h"
#include "tensor/convert.h"

namespace unspool::cpu {

struct AttentionShape {
  int64_t head_dim;
  int group;
  int kv_heads;
  int64_t block_size;
  DType stored = DType::kBFloat16;
  MatmulPrecision precision = MatmulPrecision::kBf16;
  bool qk_norm = false;
  bool norm_over_all = false;  // qk_norm: over all heads at once, and with an offset
  int64_t passed = 0;          // features of a head that are not rotated
  int64_t window = 0;
  float softcap = 0.0f;
  float scale = 0.0f;  // 0: 1 / sqrt(head_dim)

  float score_scale() const { return scale != 0.0f ? scale : 1.0f / __builtin_sqrtf(static_cast<float>(head_dim)); }

  int64_t rotary_dim() const { return head_dim - passed; }
  float norm_offset() const { return norm_over_all ? 1.0f : 0.0f; }
  int heads() const { return group * kv_heads; }
  int64_t q_width() const { return heads() * head_dim; }
  int64_t width() const { return (heads() + 2 * kv_heads) * head_dim; }
  std::string text() const {
    return std::string(torch_name(stored)) + (precision == MatmulPrecision::kBf16x2 ? " x2" : "") + ", head_dim " +
           std::to_string(head_dim) + ", group " + std::to_string(group) + ", block_size " +
           std::to_string(block_size) + (window > 0 ? ", window " + std::to_string(window) : "") +
           (softcap > 0.0f ? ", capped" : "");
  }
};

struct AttentionInput {
  int64_t tokens;
  std::vector<float> qkv;       // [tokens, width]
  std::vector<int32_t> blocks;  // the block table
};

// Tables of every position that tests use; the angles are no matter.
class Angles {
 public:
  Angles(int64_t positions, int64_t half) : half_(half) {
    Random random(5);
    cos_ = random.values(positions * half);
    sin_ = random.values(positions * half);
  }
  const float* cos(int64_t position) const { return cos_.data() + position * half_; }
  const float* sin(int64_t position) const { return sin_.data() + position * half_; }

 private:
  int64_t half_;
  std::vector<float> cos_, sin_;
};

class AttentionHarness {
 public:
  static constexpr int64_t kMaxTokens = 320;

  explicit AttentionHarness(const AttentionShape& shape)
      : shape_(shape),
        angles_(kMaxTokens, shape.rotary_dim() / 2),
        q_norm_(random_.values(shape.norm_over_all ? shape.heads() * shape.head_dim : shape.head_dim)),
        k_norm_(random_.values(shape.norm_over_all ? shape.kv_heads * shape.head_dim : shape.head_dim)) {}

  // A sequence with a block table of its own, whose blocks lie anywhere.
  AttentionInput input(int64_t tokens, Values kind = Values::kOrdinary) {
    AttentionInput in{tokens, random_.values(tokens * shape_.width(), kind), {}};
    add_blocks(in);
    return in;
  }

  // A sequence with the first `prefix` tokens of `in`, in the same blocks; a multiple of the block size.
  AttentionInput fork(const AttentionInput& in, int64_t prefix, int64_t tokens) {
    AttentionInput forked{tokens, random_.values(tokens * shape_.width()), {}};
    std::copy_n(in.qkv.begin(), prefix * shape_.width(), forked.qkv.begin());
    forked.blocks.assign(in.blocks.begin(), in.blocks.begin() + prefix / shape_.block_size);
    add_blocks(forked);
    return forked;
  }

  std::unique_ptr<KvCache> cache(CpuBackend& backend) const {
    return backend
        .make_kv_cache({.layers = 2,
                        .blocks = kBlocks,
                        .block_size = shape_.block_size,
                        .kv_heads = shape_.kv_heads,
                        .head_dim = shape_.head_dim,
                        .dtype = shape_.stored})
        .value();
  }

  // Every sequence `chunk` tokens a step, all in one batch, from position `first` on: what is before it is in the cache
  // already. Outputs [tokens, q_width] of each; marks of non-finite ones.
  std::vector<std::vector<float>> run(CpuBackend& backend, KvCache& cache, const std::vector<AttentionInput>& inputs,
                                      int64_t chunk, std::vector<uint8_t>* non_finite = nullptr,
                                      int64_t first = 0) const {
    std::vector<std::vector<float>> outputs;
    for (const auto& in : inputs) outputs.emplace_back(static_cast<size_t>(in.tokens * shape_.q_width()));
    std::vector<uint8_t> marks(inputs.size(), 0);
    for (int64_t start = first;; start += chunk) {
      std::vector<float> qkv, cos, sin;
      std::vector<AttentionSequence> sequences;
      std::vector<size_t> owners;
      int rows = 0;
      const int64_t half = shape_.rotary_dim() / 2;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const auto& in = inputs[i];
        const int64_t end = std::min(in.tokens, start + chunk);
        if (start >= end) continue;
        qkv.insert(qkv.end(), in.qkv.begin() + start * shape_.width(), in.qkv.begin() + end * shape_.width());
        cos.insert(cos.end(), angles_.cos(start), angles_.cos(start) + (end - start) * half);
        sin.insert(sin.end(), angles_.sin(start), angles_.sin(start) + (end - start) * half);
        sequences.push_back({rows, static_cast<int>(end - start), static_cast<int>(start), in.blocks});
        owners.push_back(i);
        rows += static_cast<int>(end - start);
      }
      if (rows == 0) break;
      std::vector<float> y(static_cast<size_t>(rows * shape_.q_width()));
      std::vector<uint8_t> step_marks(sequences.size(), 0);
      backend.attention({.qkv = qkv.data(),
                         .heads = shape_.heads(),
                         .layer = 1,
                         .q_norm = shape_.qk_norm ? RmsNorm{q_norm_, 1e-6f, shape_.norm_offset()} : RmsNorm{},
                         .k_norm = shape_.qk_norm ? RmsNorm{k_norm_, 1e-6f, shape_.norm_offset()} : RmsNorm{},
                         .cos = half > 0 ? cos.data() : nullptr,
                         .sin = half > 0 ? sin.data() : nullptr,
                         .rotary_dim = shape_.rotary_dim(),
                         .scale = shape_.score_scale(),
                         .softcap = shape_.softcap,
                         .window = shape_.window,
                         .sequences = sequences,
                         .non_finite = step_marks},
                        cache, shape_.precision, y.data());
      for (size_t s = 0; s < sequences.size(); ++s) {
        std::copy_n(y.begin() + sequences[s].first_row * shape_.q_width(), sequences[s].tokens * shape_.q_width(),
                    outputs[owners[s]].begin() + start * shape_.q_width());
        marks[owners[s]] |= step_marks[s];
      }
    }
    if (non_finite != nullptr) *non_finite = marks;
    return outputs;
  }
  std::vector<float> run_alone(CpuBackend& backend, const AttentionInput& in, int64_t chunk) const {
    const auto fresh = cache(backend);
    return run(backend, *fresh, {in}, chunk)[0];
  }

  // The rotated queries and keys, and the values, as plain arrays: q [heads], k and v [kv_heads], of [tokens,
  // head_dim].
  struct Plain {
    std::vector<std::vector<float>> q, k, v;
  };
  Plain plain(const AttentionInput& in) const {
    const int64_t dim = shape_.head_dim;
    Plain p;
    p.q.resize(static_cast<size_t>(shape_.heads()));
    p.k.resize(static_cast<size_t>(shape_.kv_heads));
    p.v.resize(static_cast<size_t>(shape_.kv_heads));
    for (int64_t t = 0; t < in.tokens; ++t) {
      std::vector<float> normed(in.qkv.begin() + t * shape_.width(), in.qkv.begin() + (t + 1) * shape_.width());
      const float* row = normed.data();
      if (shape_.qk_norm && shape_.norm_over_all) {
        float *q = normed.data(), *k = q + shape_.q_width();
        reference::rms_norm(q, q_norm_.data(), shape_.norm_offset(), 1e-6f, shape_.q_width(), q);
        reference::rms_norm(k, k_norm_.data(), shape_.norm_offset(), 1e-6f, shape_.kv_heads * dim, k);
      }
      auto head = [&](const float* norm, bool turned) {
        std::vector<float> x(row, row + dim);
        row += dim;
        if (turned && shape_.qk_norm && !shape_.norm_over_all)
          reference::rms_norm(x.data(), norm, 0.0f, 1e-6f, dim, x.data());
        if (turned) reference::rotate(x.data(), angles_.cos(t), angles_.sin(t), shape_.rotary_dim() / 2);
        return x;
      };
      auto append = [](std::vector<float>& to, const std::vector<float>& x) {
        to.insert(to.end(), x.begin(), x.end());
      };
      for (auto& q : p.q) append(q, head(q_norm_.data(), true));
      for (auto& k : p.k) append(k, head(k_norm_.data(), true));
      for (auto& v : p.v) append(v, head(nullptr, false));
    }
    return p;
  }
  std::vector<float> expected(const AttentionInput& in) const {
    const Plain p = plain(in);
    std::vector<float> out(static_cast<size_t>(in.tokens * shape_.q_width()));
    for (int64_t t = 0; t < in.tokens; ++t)
      for (size_t h = 0; h < p.q.size(); ++h) {
        const size_t kv = h / static_cast<size_t>(shape_.group);
        reference::attend({.q = p.q[h].data() + t * shape_.head_dim,
                           .keys = p.k[kv].data(),
                           .values = p.v[kv].data(),
                           .first = shape_.window > 0 ? std::max<int64_t>(t + 1 - shape_.window, 0) : 0,
                           .visible = t + 1,
                           .dim = shape_.head_dim,
                           .scale = shape_.score_scale(),
                           .softcap = shape_.softcap,
                           .stored = shape_.stored,
                           .precision = shape_.precision},
                          out.data() + t * shape_.q_width() + static_cast<int64_t>(h) * shape_.head_dim);
      }
    return out;
  }

 private:
  void add_blocks(AttentionInput& in) {
    while (static_cast<int64_t>(in.blocks.size()) * shape_.block_size < in.tokens) {
      in.blocks.push_back(next_block_);
      next_block_ = (next_block_ + 7) % kBlocks;
    }
  }

  static constexpr int32_t kBlocks = 205;  // no multiple of 7, so that every block comes once in 205
  AttentionShape shape_;
  Random random_{13};
  Angles angles_;
  std::vector<float> q_norm_, k_norm_;
  int32_t next_block_ = 3;
};

}  // namespace unspool::cpu
