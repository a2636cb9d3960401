// Walks a syntax tree. One rendering each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/budget.h"
#include "jinja/object.h"
#include "jinja/template.h"
#include "jinja/value.h"

namespace unspool::jinja {

// The variables of a function that is running, or that a macro still refers to.
struct Frame {
  Frame* parent = nullptr;
  std::vector<std::optional<Value>> slots;
};

class Interpreter {
 public:
  // All of these must outlive it.
  Interpreter(const SyntaxTree& tree, const Variables& variables, const Limits& limits, const Clock& clock)
      : tree_(tree), variables_(variables), clock_(clock), limits_(limits), budget_(limits) {}

  Text render();
  int line() const { return line_; }  // of what was evaluated last

  Budget& budget() { return budget_; }
  const Clock& clock() const { return clock_; }
  // Puts what may come to hold itself (namespaces, macros, loops) into the interpreter's ownership. The value refers to
  // it without owning it, so that no cycle of shared pointers can arise.
  Value own(std::unique_ptr<Object> object);

  // --- expressions (evaluator.cc)
  Value evaluate(const Expression& node, Frame& frame);
  Arguments evaluate_arguments(const CallArguments& node, Frame& frame);

  // --- filters and tests by name, as `map` and `select` call them
  Value apply_filter(std::string_view name, const Value& value, Arguments arguments);
  Value apply_test(std::string_view name, const Value& value, Arguments arguments);

  // --- functions of the template (interpreter.cc)
  void enter_function(const Scope& scope, Frame& frame) { enter(scope, frame); }
  Text run_macro(const Statement& macro, Frame& frame);
  Frame& new_frame(Frame* parent, int num_slots);
  Value run_recursive_loop(const Statement& loop, Frame& outer, Value iterable, Integer depth0);
  Value run_block(std::string_view name);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  Flow run(const Body& body, Frame& frame);
  Flow run(const Statement& node, Frame& frame);
  Flow run_if(const Statement& node, Frame& frame);
  Flow run_for(const Statement& node, Frame& frame);
  Flow run_loop(const Statement& node, Frame& frame, Frame& outer, Value iterable, Integer depth0);
  Value filtered(const Statement& node, Frame& outer, Value iterable);
  Flow run_set_block(const Statement& node, Frame& frame);
  Flow run_filter_block(const Statement& node, Frame& frame);
  Flow run_with(const Statement& node, Frame& frame);
  void run_call_block(const Statement& node, Frame& frame);
  void run_named_block(const Statement& node, Frame& frame);
  // What a body writes. Its flow leaves through `flow`.
  Text capture(const Body& body, Frame& frame, Flow& flow);

  void enter(const Scope& scope, Frame& frame);
  void export_variables(const Statement& node, Frame& frame);
  void assign(const Expression& target, Value value, Frame& frame);
  void check_namespace_targets(const Expression& target, Frame& frame);
  void bind_filter_targets(const Expression& target, const Value& value, const std::vector<int>& slots, size_t& slot,
                           Frame& frame);
  Value apply_block_filter(const Expression& filter, const Text& text, Frame& frame);
  std::vector<Value> unpack(size_t count, const Value& value);
  void write(const Value& value);
  void write(std::string_view data);
  void write_string(const Value& value);

  std::optional<Value>& variable(Slot slot, Frame& frame);
  std::optional<Value> resolve(const std::string& name) const;

  Value evaluate_name(const Expression& node, Frame& frame);
  Value evaluate_compare(const Expression& node, Frame& frame);
  Value evaluate_call(const Expression& node, Frame& frame);
  Value evaluate_dict(const Expression& node, Frame& frame);
  std::vector<Value> evaluate_all(const std::vector<ExpressionPtr>& nodes, Frame& frame);

  const SyntaxTree& tree_;
  const Variables& variables_;
  const Clock& clock_;
  const Limits limits_;
  Budget budget_;
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<std::unique_ptr<Frame>> frames_;
  Variables exported_;  // what the top level has set, for blocks
  const Variables* block_variables_ = nullptr;
  Text* out_ = nullptr;
  const Text* captured_ = nullptr;  // what the filter of a block applies to
  int line_ = 0;
};

}  // namespace unspool::jinja
