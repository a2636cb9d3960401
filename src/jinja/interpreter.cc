#include "jinja/interpreter.h"

#include <fmt/format.h>

#include <utility>

#include "jinja/globals.h"
#include "jinja/iteration.h"
#include "jinja/loop.h"
#include "jinja/macro.h"
#include "jinja/operations.h"
#include "jinja/template_error.h"

namespace unspool::jinja {

using Kind = Statement::Kind;

Text Interpreter::render() {
  Text out;
  out_ = &out;
  Frame& frame = new_frame(nullptr, tree_.num_slots);
  if (tree_.self_slot >= 0) frame.slots[static_cast<size_t>(tree_.self_slot)] = own(make_self());
  enter(tree_.scope, frame);
  run(tree_.body, frame);
  return out;
}

Value Interpreter::own(std::unique_ptr<Object> object) {
  budget_.spend(2);
  objects_.push_back(std::move(object));
  return Value::object(std::shared_ptr<Object>(std::shared_ptr<Object>(), objects_.back().get()));
}

// Frames live as long as the rendering, since macros may refer to them; their number is bounded by the steps.
Frame& Interpreter::new_frame(Frame* parent, int num_slots) {
  budget_.spend(2 + num_slots);
  frames_.push_back(std::make_unique<Frame>());
  Frame& frame = *frames_.back();
  frame.parent = parent;
  frame.slots.resize(static_cast<size_t>(num_slots));
  return frame;
}

std::optional<Value>& Interpreter::variable(Slot slot, Frame& frame) {
  Frame* at = &frame;
  for (int up = slot.up; up > 0; --up) at = at->parent;
  return at->slots[static_cast<size_t>(slot.slot)];
}

std::optional<Value> Interpreter::resolve(const std::string& name) const {
  for (const Variables* variables : {block_variables_, &exported_, &variables_}) {
    if (variables == nullptr) continue;
    const auto found = variables->find(name);
    if (found != variables->end()) return found->second;
  }
  return find_global(name);
}

void Interpreter::enter(const Scope& scope, Frame& frame) {
  for (const ScopeLoad& load : scope.loads) {
    std::optional<Value>& slot = frame.slots[static_cast<size_t>(load.slot)];
    switch (load.kind) {
      case ScopeLoad::Kind::kResolve:
        slot = resolve(load.name);
        break;
      case ScopeLoad::Kind::kAlias:
        slot = variable(load.alias, frame);
        break;
      case ScopeLoad::Kind::kUndefined:
        slot.reset();
    }
  }
}

void Interpreter::write(std::string_view data) {
  out_->append(data, Origin::kTemplate);
  budget_.spend_bytes(data.size());
  budget_.check_output(out_->size());
}

void Interpreter::write(const Value& value) {
  const Text text = to_text(value, *this);
  out_->append(text);
  budget_.spend_bytes(text.size());
  budget_.check_output(out_->size());
}

// What a filter block or a call block gives is written as it is, so that it has to be a string.
void Interpreter::write_string(const Value& value) {
  if (!value.is_string()) fail(fmt::format("expected str instance, {} found", type_name(value)));
  write(value);
}

Text Interpreter::capture(const Body& body, Frame& frame, Flow& flow) {
  Text text;
  Text* const outer = std::exchange(out_, &text);
  flow = run(body, frame);
  out_ = outer;
  return text;
}

Text Interpreter::run_macro(const Statement& macro, Frame& frame) {
  const int line = line_;
  Flow flow;
  Text text = capture(macro.body, frame, flow);
  line_ = line;
  return text;
}

Interpreter::Flow Interpreter::run(const Body& body, Frame& frame) {
  for (const StatementPtr& node : body) {
    const Flow flow = run(*node, frame);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& node, Frame& frame) {
  budget_.spend();
  line_ = node.line;
  switch (node.kind) {
    case Kind::kData:
      write(node.data);
      return Flow::kNext;
    case Kind::kOutput:
      for (const ExpressionPtr& expression : node.expressions) write(evaluate(*expression, frame));
      return Flow::kNext;
    case Kind::kIf:
      return run_if(node, frame);
    case Kind::kFor:
      return run_for(node, frame);
    case Kind::kSet:
      check_namespace_targets(*node.targets[0], frame);
      assign(*node.targets[0], evaluate(*node.expression, frame), frame);
      export_variables(node, frame);
      return Flow::kNext;
    case Kind::kSetBlock:
      return run_set_block(node, frame);
    case Kind::kMacro:
      variable(node.slot, frame) = own(std::make_unique<Macro>(node, frame));
      export_variables(node, frame);
      return Flow::kNext;
    case Kind::kCallBlock:
      run_call_block(node, frame);
      return Flow::kNext;
    case Kind::kGeneration: {
      // The marks that it makes around what the assistant said are of no use here; its scope is.
      Macro body(node, frame);
      write(body.call(*this, {}));
      return Flow::kNext;
    }
    case Kind::kFilterBlock:
      return run_filter_block(node, frame);
    case Kind::kWith:
      return run_with(node, frame);
    case Kind::kBlock:
      run_named_block(node, frame);
      return Flow::kNext;
    case Kind::kAutoescape:
      enter(node.scope, frame);
      if (truthy(evaluate(*node.expressions[0], frame))) fail_unsupported("autoescape is not supported");
      return run(node.body, frame);
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
    case Kind::kLoadTemplate:
      evaluate(*node.expression, frame);
      fail("no loader for this environment specified");
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Statement& node, Frame& frame) {
  if (truthy(evaluate(*node.expression, frame))) return run(node.body, frame);
  for (const StatementPtr& branch : node.elifs) {
    line_ = branch->line;
    if (truthy(evaluate(*branch->expression, frame))) return run(branch->body, frame);
  }
  return run(node.otherwise, frame);
}

Interpreter::Flow Interpreter::run_for(const Statement& node, Frame& frame) {
  const Budget::Level level(budget_);
  Value iterable = evaluate(*node.expression, frame);
  if (!node.is_recursive) return run_loop(node, frame, frame, std::move(iterable), 0);
  write(run_recursive_loop(node, frame, std::move(iterable), 0));
  return Flow::kNext;
}

Value Interpreter::run_recursive_loop(const Statement& loop, Frame& outer, Value iterable, Integer depth0) {
  const Budget::Level level(budget_);
  Text text;
  Text* const enclosing = std::exchange(out_, &text);
  run_loop(loop, new_frame(&outer, loop.num_slots), outer, std::move(iterable), depth0);
  out_ = enclosing;
  return Value::string(std::move(text));
}

// The items that pass the `if` of a loop, tested as they are taken.
Value Interpreter::filtered(const Statement& node, Frame& outer, Value iterable) {
  if (!node.filter) return iterable;
  Frame& frame = new_frame(&outer, node.num_filter_slots);
  enter(node.filter_scope, frame);
  auto iteration = std::make_shared<Iteration>(iterable, *this);
  return Value::iterator(iterable, [this, &node, &frame, iteration]() -> std::optional<Value> {
    while (std::optional<Value> item = iteration->next()) {
      size_t slot = 0;
      bind_filter_targets(*node.targets[0], *item, node.filter_targets, slot, frame);
      if (truthy(evaluate(*node.filter, frame))) return item;
    }
    return std::nullopt;
  });
}

void Interpreter::bind_filter_targets(const Expression& target, const Value& value, const std::vector<int>& slots,
                                      size_t& slot, Frame& frame) {
  if (target.kind != Expression::Kind::kTuple) {
    frame.slots[static_cast<size_t>(slots[slot++])] = value;
    return;
  }
  const std::vector<Value> items = unpack(target.operands.size(), value);
  for (size_t i = 0; i < items.size(); ++i) bind_filter_targets(*target.operands[i], items[i], slots, slot, frame);
}

// The `else` of a loop is outside of it: a break there is one of the loop around.
Interpreter::Flow Interpreter::run_loop(const Statement& node, Frame& frame, Frame& outer, Value iterable,
                                        Integer depth0) {
  iterable = filtered(node, outer, std::move(iterable));
  std::optional<Value>* loop_variable = nullptr;
  Loop* loop = nullptr;
  std::optional<Iteration> iteration;
  if (node.loop_slot >= 0) {
    Loop::Recursion recursion;
    if (node.is_recursive) recursion = {&node, &outer};
    budget_.spend(8);  // a Loop is large
    const Value value = own(std::make_unique<Loop>(std::move(iterable), recursion, depth0, *this));
    loop = as_loop(value);
    loop_variable = &frame.slots[static_cast<size_t>(node.loop_slot)];
    *loop_variable = value;
  } else {
    iteration.emplace(std::move(iterable), *this);
  }
  bool runs_else = true;  // until a body has run to its end, which a break or continue prevents
  const std::optional<Value> loop_value = loop_variable != nullptr ? *loop_variable : std::nullopt;
  for (;;) {
    line_ = node.line;
    std::optional<Value> item = loop != nullptr ? loop->advance() : iteration->next();
    if (!item) break;
    assign(*node.targets[0], *std::move(item), frame);
    if (loop_variable != nullptr) *loop_variable = loop_value;
    enter(node.scope, frame);
    const Flow flow = run(node.body, frame);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) runs_else = false;
  }
  if (!runs_else) return Flow::kNext;
  enter(node.else_scope, frame);
  return run(node.otherwise, frame);
}

Interpreter::Flow Interpreter::run_set_block(const Statement& node, Frame& frame) {
  const Budget::Level level(budget_);
  enter(node.scope, frame);
  Flow flow;
  const Text text = capture(node.body, frame, flow);
  if (flow != Flow::kNext) return flow;
  Value value = Value::string(text);
  if (node.expression) value = apply_block_filter(*node.expression, text, frame);
  assign(*node.targets[0], std::move(value), frame);
  export_variables(node, frame);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_filter_block(const Statement& node, Frame& frame) {
  const Budget::Level level(budget_);
  enter(node.scope, frame);
  Flow flow;
  const Text text = capture(node.body, frame, flow);
  if (flow != Flow::kNext) return flow;
  write_string(apply_block_filter(*node.expression, text, frame));
  return Flow::kNext;
}

Value Interpreter::apply_block_filter(const Expression& filter, const Text& text, Frame& frame) {
  const Text* const outer = std::exchange(captured_, &text);
  Value value = evaluate(filter, frame);
  captured_ = outer;
  return value;
}

Interpreter::Flow Interpreter::run_with(const Statement& node, Frame& frame) {
  const Budget::Level level(budget_);
  enter(node.scope, frame);
  for (size_t i = 0; i < node.targets.size(); ++i) {
    assign(*node.targets[i], evaluate(*node.expressions[i], frame), frame);
  }
  return run(node.body, frame);
}

void Interpreter::run_call_block(const Statement& node, Frame& frame) {
  const Value caller = own(std::make_unique<Macro>(node, frame));
  const Expression& call_node = *node.expression;
  const Value callee = evaluate(*call_node.operands[0], frame);
  Arguments arguments = evaluate_arguments(call_node.arguments, frame);
  arguments.keywords.emplace_back("caller", caller);
  write_string(call(callee, std::move(arguments), *this));
}

void Interpreter::run_named_block(const Statement& node, Frame& frame) {
  if (node.is_required) fail(fmt::format("Required block '{}' not found", node.name));
  const Variables* const outer = block_variables_;
  Variables visible;
  if (node.is_scoped) {
    if (outer != nullptr) visible = *outer;
    for (const auto& [name, slot] : node.visible) {
      if (const auto& value = variable(slot, frame)) visible[name] = *value;
    }
    block_variables_ = &visible;
  }
  write(run_block(node.name));
  block_variables_ = outer;
}

Value Interpreter::run_block(std::string_view name) {
  const Budget::Level level(budget_);
  for (const auto& [block_name, block] : tree_.blocks) {
    if (block_name != name) continue;
    Frame& frame = new_frame(nullptr, block->num_slots);
    if (block->self_slot >= 0) frame.slots[static_cast<size_t>(block->self_slot)] = own(make_self());
    if (block->super_slot >= 0) {
      frame.slots[static_cast<size_t>(block->super_slot)] =
          Value::undefined(fmt::format("there is no parent block called '{}'.", name));
    }
    enter(block->scope, frame);
    Flow flow;
    return Value::string(capture(block->body, frame, flow));
  }
  fail(fmt::format("'{}'", name));
}

void Interpreter::export_variables(const Statement& node, Frame& frame) {
  if (tree_.blocks.empty()) return;
  for (const auto& [name, slot] : node.exported) {
    if (const auto& value = variable(slot, frame)) exported_[name] = *value;
  }
}

std::vector<Value> Interpreter::unpack(size_t count, const Value& value) {
  if (!is_iterable(value)) fail(fmt::format("cannot unpack non-iterable {} object", type_name(value)));
  std::vector<Value> items;
  Iteration iteration(value, *this);
  while (std::optional<Value> item = iteration.next()) {
    if (items.size() == count) fail(fmt::format("too many values to unpack (expected {})", count));
    items.push_back(*std::move(item));
  }
  if (items.size() < count) {
    fail(fmt::format("not enough values to unpack (expected {}, got {})", count, items.size()));
  }
  return items;
}

void Interpreter::check_namespace_targets(const Expression& target, Frame& frame) {
  if (target.kind == Expression::Kind::kNamespaceTarget) {
    const std::optional<Value>& value = variable(target.slot, frame);
    if (!value || !value->is_object() || dynamic_cast<Namespace*>(&value->as_object()) == nullptr) {
      fail("cannot assign attribute on non-namespace object");
    }
  }
  for (const ExpressionPtr& item : target.operands) check_namespace_targets(*item, frame);
}

void Interpreter::assign(const Expression& target, Value value, Frame& frame) {
  switch (target.kind) {
    case Expression::Kind::kTuple: {
      std::vector<Value> items = unpack(target.operands.size(), value);
      for (size_t i = 0; i < items.size(); ++i) assign(*target.operands[i], std::move(items[i]), frame);
      return;
    }
    case Expression::Kind::kNamespaceTarget:
      check_namespace_targets(target, frame);
      dynamic_cast<Namespace&>(variable(target.slot, frame)->as_object())
          .set(Value::string(target.attribute), std::move(value));
      return;
    default:
      variable(target.slot, frame) = std::move(value);
  }
}

}  // namespace unspool::jinja
