// Routing and experts against the reference, bit for bit: every instruction set, one to three threads, every dtype.
#include <cmath>
#include <limits>

#include "backend/reference/experts_reference.h"
#include "backend_fixture.h"
#include "tensor/convert.h"

namespace unspool::cpu {
namespace {

constexpr int64_t kHidden = 37, kInner = 51, kExperts = 5, kTopK = 3, kMost = 70;

std::unique_ptr<Matrix> make_matrix(Backend& backend, const std::vector<float>& w, int64_t columns, DType dtype) {
  const int64_t rows = static_cast<int64_t>(w.size()) / columns;
  auto matrix = backend.make_matrix(rows, columns, dtype).value();
  backend.load_rows(*matrix, 0, {w.data(), DType::kFloat32, Shape{rows, columns}});
  return matrix;
}

std::vector<float> row_of(const std::vector<float>& all, int64_t row, int64_t width) {
  return {all.begin() + row * width, all.begin() + (row + 1) * width};
}

class ExpertsTest : public testing::TestWithParam<DType> {
 protected:
  struct Layer {
    std::vector<std::vector<float>> gate, up, down;
  };
  Layer random_layer() {
    Layer layer;
    for (int e = 0; e < kExperts; ++e) {
      layer.gate.push_back(random_.values(kInner * kHidden));
      layer.up.push_back(random_.values(kInner * kHidden));
      layer.down.push_back(random_.values(kHidden * kInner));
    }
    return layer;
  }

  // What an expert makes of one row.
  static std::vector<float> expected_output(const Layer& layer, size_t expert, const std::vector<float>& x,
                                            MatmulPrecision precision) {
    std::vector<float> gate(kInner), up(kInner), out(kHidden);
    reference::LinearArgs args{.x = x.data(),
                               .rows = 1,
                               .columns = kHidden,
                               .w = layer.gate[expert].data(),
                               .outputs = kInner,
                               .dtype = GetParam(),
                               .precision = precision};
    reference::linear(args, gate.data());
    args.w = layer.up[expert].data();
    reference::linear(args, up.data());
    reference::silu_mul(gate.data(), up.data(), nullptr, nullptr, kInner, gate.data());
    args = {.x = gate.data(),
            .rows = 1,
            .columns = kInner,
            .w = layer.down[expert].data(),
            .outputs = kHidden,
            .dtype = GetParam(),
            .precision = precision};
    reference::linear(args, out.data());
    return out;
  }

  FloatModeGuard mode_;
  Random random_{71};
};

// The router's product: bf16 weights widened, and the input as it is.
TEST_P(ExpertsTest, AnInputOfFloatsIsNotRounded) {
  constexpr int64_t kOutputs = 50;
  for (const int64_t columns : {int64_t{1}, kHidden, int64_t{64}}) {
    const auto x = random_.values(kMost * columns), w = random_.values(kOutputs * columns);
    std::vector<float> expected;
    for (int64_t r = 0; r < kMost; ++r)
      for (int64_t j = 0; j < kOutputs; ++j) {
        auto weights = row_of(w, j, columns);
        for (float& weight : weights) weight = reference::stored_value(weight, GetParam());
        const auto row = row_of(x, r, columns);
        expected.push_back(GetParam() == DType::kBFloat16 ? reference::dot_wide(row.data(), weights.data(), columns)
                                                          : reference::chain_f32(row.data(), weights.data(), columns));
      }
    for_every_backend([&](CpuBackend& backend, const std::string& name) {
      const auto matrix = make_matrix(backend, w, columns, GetParam());
      const auto input = backend.make_product_input(kMost, columns, DType::kFloat32, MatmulPrecision::kBf16).value();
      for (const int64_t rows : {int64_t{1}, int64_t{6}, int64_t{7}, kMost}) {
        backend.prepare(x.data(), rows, columns, *input);
        std::vector<float> y(static_cast<size_t>(rows * kOutputs));
        backend.linear(*input, *matrix, nullptr, false, y.data(), kOutputs);
        EXPECT_TRUE(same_bits(std::span(expected).first(y.size()), y)) << name << ", " << rows << " of " << columns;
      }
    });
  }
}

TEST_P(ExpertsTest, SumOverARowsExperts) {
  const Layer layer = random_layer();
  const auto x = random_.values(kMost * kHidden), shared = random_.values(kMost * kHidden),
             gates = random_.values(kMost);
  const auto old = random_.values(kMost * kHidden);
  ExpertRoutes routes{.rows = kMost, .top_k = kTopK, .experts = {}, .weights = {}};
  for (int64_t r = 0; r < kMost; ++r) {
    const auto logits = random_.values(kExperts - 1);  // the last expert has no rows
    const reference::Route route = reference::route(logits.data(), kExperts - 1, kTopK, r % 2 == 0);
    routes.experts.insert(routes.experts.end(), route.experts.begin(), route.experts.end());
    routes.weights.insert(routes.weights.end(), route.weights.begin(), route.weights.end());
  }
  for (const auto precision : {MatmulPrecision::kBf16, MatmulPrecision::kBf16x2})
    for (const bool with_shared : {false, true}) {
      std::vector<float> expected = old;
      for (int64_t r = 0; r < kMost; ++r) {
        std::vector<std::vector<float>> outputs;
        std::vector<float> weights;
        for (int64_t i = r * kTopK; i < (r + 1) * kTopK; ++i) {
          const auto at = static_cast<size_t>(i);
          outputs.push_back(
              expected_output(layer, static_cast<size_t>(routes.experts[at]), row_of(x, r, kHidden), precision));
          weights.push_back(routes.weights[at]);
        }
        if (with_shared) {
          outputs.push_back(row_of(shared, r, kHidden));
          weights.push_back(reference::sigmoid(gates[static_cast<size_t>(r)]));
        }
        reference::add_weighted(outputs, weights, expected.data() + r * kHidden);
      }
      for_every_backend([&](CpuBackend& backend, const std::string& name) {
        std::vector<std::unique_ptr<Matrix>> matrices;
        std::vector<ExpertWeights> experts;
        for (size_t e = 0; e < kExperts; ++e) {
          for (const auto* w : {&layer.gate[e], &layer.up[e]})
            matrices.push_back(make_matrix(backend, *w, kHidden, GetParam()));
          matrices.push_back(make_matrix(backend, layer.down[e], kInner, GetParam()));
          const size_t last = matrices.size();
          experts.push_back({matrices[last - 3].get(), matrices[last - 2].get(), matrices[last - 1].get()});
        }
        const auto input = backend.make_product_input(kMost, kHidden, GetParam(), precision).value();
        const auto scratch =
            backend
                .make_expert_scratch({.max_rows = kMost, .top_k = kTopK, .hidden = kHidden, .inner = kInner},
                                     GetParam(), precision)
                .value();
        // All rows, then each of some alone: the others change nothing.
        auto run = [&](int64_t first, int64_t rows) {
          const auto from = static_cast<size_t>(first * kTopK), to = static_cast<size_t>((first + rows) * kTopK);
          const ExpertRoutes some{.rows = rows,
                                  .top_k = kTopK,
                                  .experts = {routes.experts.begin() + from, routes.experts.begin() + to},
                                  .weights = {routes.weights.begin() + from, routes.weights.begin() + to}};
          backend.prepare(x.data() + first * kHidden, rows, kHidden, *input);
          std::vector<float> y(old.begin() + first * kHidden, old.begin() + (first + rows) * kHidden);
          backend.experts({.x = input.get(),
                           .routes = &some,
                           .experts = experts,
                           .shared = with_shared ? shared.data() + first * kHidden : nullptr,
                           .shared_gate = with_shared ? gates.data() + first : nullptr},
                          *scratch, y.data());
          EXPECT_TRUE(same_bits(std::span(expected).subspan(static_cast<size_t>(first * kHidden), y.size()), y))
              << name << ", rows " << first << " and on, " << rows;
        };
        run(0, kMost);
        run(3, 1);
        run(kMost - 9, 9);
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Served, ExpertsTest, testing::ValuesIn(kServedTypes),
                         [](const auto& info) { return std::string(torch_name(info.param)); });

TEST(RouteTest, TheReferencesBits) {
  const FloatModeGuard mode;
  Random random(72);
  constexpr int64_t kRows = 40;
  for (const int64_t experts : {1, 3, 16, 60, 128, 300})
    for (const int64_t top_k : {int64_t{1}, int64_t{2}, int64_t{8}})
      for (const bool normalize : {false, true}) {
        if (top_k > experts) continue;
        auto logits = random.values(kRows * experts);
        // Far apart in some rows, so that probabilities of 0 are equal; in others all are.
        for (int64_t i = 0; i < experts; ++i) logits[static_cast<size_t>(i)] *= 1000.0f;
        for (int64_t i = experts; i < 2 * experts; ++i) logits[static_cast<size_t>(i)] = 0.25f;
        for_every_backend([&](CpuBackend& backend, const std::string& name) {
          ExpertRoutes routes;
          routes.top_k = top_k;
          backend.route(logits.data(), kRows, experts, normalize, routes);
          for (int64_t r = 0; r < kRows; ++r) {
            const auto expected = reference::route(logits.data() + r * experts, experts, top_k, normalize);
            const auto first = static_cast<size_t>(r * top_k), count = static_cast<size_t>(top_k);
            EXPECT_EQ(
                std::vector<int32_t>(routes.experts.begin() + r * top_k, routes.experts.begin() + (r + 1) * top_k),
                expected.experts)
                << name << ", row " << r;
            EXPECT_TRUE(same_bits(std::span(routes.weights).subspan(first, count), expected.weights)) << name;
          }
        });
      }
}

TEST(RouteTest, EqualProbabilitiesGoToTheLowestIds) {
  const std::vector<float> logits = {1.0f, 2.0f, 2.0f, 1.0f, 2.0f};
  ExpertRoutes routes;
  routes.top_k = 4;
  backend_of("", 1).route(logits.data(), 1, 5, true, routes);
  EXPECT_EQ(routes.experts, (std::vector<int32_t>{1, 2, 4, 0}));
}

// The request fails later, by its logits; here every row still gets experts that there are.
TEST(RouteTest, NotANumberStaysWithinTheExperts) {
  std::vector<float> logits(16, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 8; i < logits.size(); ++i) logits[i] = i == 11 ? std::numeric_limits<float>::infinity() : 0.0f;
  ExpertRoutes routes;
  routes.top_k = 3;
  backend_of("", 1).route(logits.data(), 2, 8, true, routes);
  for (const int32_t expert : routes.experts) EXPECT_TRUE(expert >= 0 && expert < 8) << expert;
}

}  // namespace
}  // namespace unspool::cpu
