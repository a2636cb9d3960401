// Mixture of experts on the CPU: rows are copied into the order of their experts, whose products are then those of
// linear() and gated() over an expert's own rows, with one queue of tasks for all of them.
#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/packed_input.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/product_tiles.h"
#include "base/check.h"

namespace unspool::cpu {
namespace {

// A run of panels for some of one expert's rows.
struct Task {
  int32_t expert;
  int64_t row, rows;
  int64_t panel, end_panel;
};

class SlotScratch final : public ExpertScratch {
 public:
  static Result<std::unique_ptr<SlotScratch>> create(const ExpertShape& shape, DType weights,
                                                     MatmulPrecision precision) {
    auto scratch = std::make_unique<SlotScratch>();
    const int64_t slots = shape.max_rows * shape.top_k;
    UNSPOOL_ASSIGN(scratch->input, PackedInput::create(slots, shape.hidden, weights, precision));
    UNSPOOL_ASSIGN(scratch->gated, PackedInput::create(slots, shape.inner, weights, precision));
    UNSPOOL_ASSIGN(scratch->output, Buffer::allocate(static_cast<size_t>(slots * shape.hidden) * sizeof(float)));
    return scratch;
  }

  // A slot for every row and rank, those of an expert side by side in the order of the rows.
  void assign_slots(const ExpertRoutes& routes, size_t num_experts) {
    first_slot.assign(num_experts + 1, 0);
    for (const int32_t expert : routes.experts) {
      UNSPOOL_CHECK(expert >= 0 && static_cast<size_t>(expert) < num_experts, "expert {} of {}", expert, num_experts);
      ++first_slot[static_cast<size_t>(expert) + 1];
    }
    for (size_t e = 0; e < num_experts; ++e) first_slot[e + 1] += first_slot[e];
    std::vector<int64_t> next(first_slot.begin(), first_slot.end() - 1);
    slots.clear();
    for (const int32_t expert : routes.experts) slots.push_back(next[static_cast<size_t>(expert)]++);
  }

  // For a product of `panels` panels an expert. Where an expert has few rows its weights are read at memory's speed, in
  // runs that are long, but leave every thread some.
  void list_tasks(int64_t panels, int64_t few_rows, int threads) {
    int64_t used = 0;
    const size_t num_experts = first_slot.size() - 1;
    for (size_t e = 0; e < num_experts; ++e) used += first_slot[e + 1] > first_slot[e] ? 1 : 0;
    const int64_t long_run =
        std::clamp(used * panels / (2 * threads) / kTilePanels * kTilePanels, kTilePanels, kLongestRun);
    tasks.clear();
    for (size_t e = 0; e < num_experts; ++e) {
      const int64_t first = first_slot[e], last = first_slot[e + 1];
      const int64_t run = last - first <= few_rows ? long_run : kTilePanels;
      if (first == last) continue;
      for (int64_t panel = 0; panel < panels; panel += run)
        for (int64_t row = first; row < last; row += kTileRows)
          tasks.push_back(
              {static_cast<int32_t>(e), row, std::min(kTileRows, last - row), panel, std::min(panels, panel + run)});
    }
  }

  std::unique_ptr<PackedInput> input, gated;
  Buffer output;  // [slots, hidden]
  std::vector<int64_t> first_slot, slots;
  std::vector<Task> tasks;
};

// A row's choice: the largest first, of equals the one with the lower id.
void choose(const float* probabilities, int64_t experts, int64_t top_k, int32_t* ids, float* weights) {
  int64_t count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const float p = probabilities[e];
    if (count == top_k && !(p > weights[count - 1])) continue;
    int64_t at = count < top_k ? count++ : count - 1;
    for (; at > 0 && p > weights[at - 1]; --at) {
      ids[at] = ids[at - 1];
      weights[at] = weights[at - 1];
    }
    ids[at] = static_cast<int32_t>(e);
    weights[at] = p;
  }
}

}  // namespace

Result<std::unique_ptr<ExpertScratch>> CpuBackend::make_expert_scratch(const ExpertShape& shape, DType weights,
                                                                       MatmulPrecision precision) {
  UNSPOOL_ASSIGN(auto scratch, SlotScratch::create(shape, weights, precision));
  return std::unique_ptr<ExpertScratch>(std::move(scratch));
}

void CpuBackend::route(const float* logits, int64_t rows, int64_t experts, bool normalize, ExpertRoutes& to) {
  UNSPOOL_CHECK(to.top_k > 0 && to.top_k <= experts, "{} of {} experts", to.top_k, experts);
  to.rows = rows;
  to.experts.resize(static_cast<size_t>(rows * to.top_k));
  to.weights.resize(to.experts.size());
  for_rows(rows, [&](int64_t r) {
    thread_local std::vector<float> probabilities;
    probabilities.assign(logits + r * experts, logits + (r + 1) * experts);
    kernels_.softmax(probabilities.data(), experts);
    float* weights = to.weights.data() + r * to.top_k;
    choose(probabilities.data(), experts, to.top_k, to.experts.data() + r * to.top_k, weights);
    if (!normalize) return;
    float sum = weights[0];
    for (int64_t i = 1; i < to.top_k; ++i) sum = sum + weights[i];
    for (int64_t i = 0; i < to.top_k; ++i) weights[i] = weights[i] / sum;
  });
}

void CpuBackend::experts(const ExpertArgs& args, ExpertScratch& memory, float* y) {
  auto& scratch = static_cast<SlotScratch&>(memory);
  const auto& x = static_cast<const PackedInput&>(*args.x);
  const ExpertRoutes& routes = *args.routes;
  const int64_t rows = routes.rows, top_k = routes.top_k;
  UNSPOOL_CHECK(x.rows() == rows, "{} rows, {} routed", x.rows(), rows);
  scratch.assign_slots(routes, args.experts.size());
  scratch.input->set_rows(rows * top_k);
  scratch.gated->set_rows(rows * top_k);
  for_rows(rows, [&](int64_t r) {
    for (int64_t i = r * top_k; i < (r + 1) * top_k; ++i)
      scratch.input->copy_row(scratch.slots[static_cast<size_t>(i)], x, r);
  });

  auto matrix = [](const Matrix* m) -> const PackedMatrix& { return static_cast<const PackedMatrix&>(*m); };
  // f(expert, tile, ahead) for every tile of an expert's rows; `ahead` of the matrix that `first` picks.
  auto for_expert_tiles = [&](const Matrix* ExpertWeights::* first, auto&& f) {
    const int64_t panels = matrix(args.experts.front().*first).panels();
    scratch.list_tasks(panels, kernels_.max_rows, pool_.size());
    const auto count = static_cast<int64_t>(scratch.tasks.size());
    pool_.parallel_for(count, [&](int64_t i, int) {
      const auto start = [&](const Task& task, int64_t panel) {
        return matrix(args.experts[static_cast<size_t>(task.expert)].*first).panel(panel);
      };
      const Task& task = scratch.tasks[static_cast<size_t>(i)];
      // Threads that are all as fast take tasks by turns.
      const int64_t after = i + pool_.size();
      const Task& next = scratch.tasks[static_cast<size_t>(std::min(after, count - 1))];
      const void* next_task = after < count ? start(next, next.panel) : nullptr;
      for (int64_t panel = task.panel; panel < task.end_panel; panel += kTilePanels) {
        const int64_t width = std::min(kTilePanels, task.end_panel - panel);
        const void* ahead = panel + width < task.end_panel ? start(task, panel + width) : next_task;
        f(args.experts[static_cast<size_t>(task.expert)], Tile{task.row, task.rows, panel, width, -1}, ahead);
      }
    });
  };
  for_expert_tiles(&ExpertWeights::gate, [&](const ExpertWeights& expert, const Tile& tile, const void* ahead) {
    gated_tile(*scratch.input, {.gate = expert.gate, .up = expert.up}, tile, ahead, *scratch.gated);
  });
  const int64_t hidden = args.experts.front().down->rows();
  for_expert_tiles(&ExpertWeights::down, [&](const ExpertWeights& expert, const Tile& tile, const void* ahead) {
    linear_tile(*scratch.gated, matrix(expert.down), tile, {nullptr, false, scratch.output.as<float>(), hidden}, ahead);
  });

  for_rows(rows, [&](int64_t r) {
    thread_local std::vector<const float*> outputs;
    thread_local std::vector<float> weights;
    outputs.clear();
    weights.assign(routes.weights.begin() + r * top_k, routes.weights.begin() + (r + 1) * top_k);
    for (int64_t i = r * top_k; i < (r + 1) * top_k; ++i)
      outputs.push_back(scratch.output.as<float>() + scratch.slots[static_cast<size_t>(i)] * hidden);
    if (args.shared != nullptr) {
      float gate = args.shared_gate[r];
      kernels_.sigmoid(&gate, 1);
      outputs.push_back(args.shared + r * hidden);
      weights.push_back(gate);
    }
    kernels_.add_weighted(outputs.data(), weights.data(), static_cast<int>(outputs.size()), hidden, y + r * hidden);
  });
}

}  // namespace unspool::cpu
