#include "jinja/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "jinja/ast_walk.h"
#include "jinja/filters.h"
#include "jinja/globals.h"
#include "jinja/symbols.h"
#include "jinja/template_error.h"

namespace unspool::jinja {
namespace {

using EKind = Expression::Kind;
using SKind = Statement::Kind;

// What jinja2's compiler knows where it is: `symbols` may be those of a scope around, as for an `if`.
struct Context {
  Symbols* symbols;
  FunctionScope* function;
  bool is_top_level = false;
  bool is_soft = false;  // inside a condition: unknown filters fail when they are reached
  int loops = 0;         // around, within the function
};

// The names of `wanted` that are loaded in `body` before they are stored there.
std::set<std::string> undeclared(const Body& body, std::set<std::string> wanted) {
  std::set<std::string> found;
  std::function<void(const Expression&)> expression = [&](const Expression& node) {
    if (node.kind == EKind::kName) {
      if (node.is_store) {
        wanted.erase(node.name);
      } else if (wanted.contains(node.name)) {
        found.insert(node.name);
      }
    }
    for_each_child(node, expression);
  };
  std::function<void(const Statement&)> statement = [&](const Statement& node) {
    if (node.kind == SKind::kBlock) return;
    for_each_child(node, {expression, statement});
  };
  for (const StatementPtr& node : body) statement(*node);
  return found;
}

// First pass over a scope: which names it loads and stores, without what is inside scopes of its own.
class Analyzer {
 public:
  explicit Analyzer(Symbols& symbols) : symbols_(&symbols) {}

  void expression(const Expression& node) {
    switch (node.kind) {
      case EKind::kName:
        if (node.is_parameter) {
          symbols_->declare_parameter(node.name);
        } else if (node.is_store) {
          symbols_->store(node.name);
        } else {
          symbols_->load(node.name);
        }
        return;
      case EKind::kNamespaceTarget:
        symbols_->load(node.name);
        return;
      default:
        for_each_child(node, [this](const Expression& child) { expression(child); });
    }
  }
  void expression(const ExpressionPtr& node) {
    if (node) expression(*node);
  }
  void expressions(const std::vector<ExpressionPtr>& nodes) {
    for (const ExpressionPtr& node : nodes) expression(node);
  }

  void body(const Body& statements) {
    for (const StatementPtr& node : statements) statement(*node);
  }

  void statement(const Statement& node) {
    switch (node.kind) {
      case SKind::kIf:
        visit_if(node);
        return;
      case SKind::kFor:
      case SKind::kCallBlock:
      case SKind::kFilterBlock:
      case SKind::kLoadTemplate:
        expression(node.expression);
        return;
      case SKind::kSet:
        expression(node.expression);
        expressions(node.targets);
        return;
      case SKind::kSetBlock:
        expressions(node.targets);
        return;
      case SKind::kMacro:
        symbols_->store(node.name);
        return;
      case SKind::kOutput:
      case SKind::kWith:
        expressions(node.expressions);
        return;
      default:
        return;
    }
  }

  // The target of a loop, whose names are parameters of its body.
  void parameters(const Expression& target) {
    if (target.kind == EKind::kName) symbols_->declare_parameter(target.name);
    if (target.kind == EKind::kNamespaceTarget) symbols_->load(target.name);
    for (const ExpressionPtr& item : target.operands) parameters(*item);
  }

 private:
  void visit_if(const Statement& node) {
    expression(node.expression);
    Symbols* const original = symbols_;
    std::vector<Symbols> branches;
    for (const Body* branch : {&node.body, &node.elifs, &node.otherwise}) {
      Symbols copy = *original;
      symbols_ = &copy;
      body(*branch);
      branches.push_back(std::move(copy));
    }
    symbols_ = original;
    symbols_->update_from_branches(branches);
  }

  Symbols* symbols_;
};

// Second pass: slots.
class Resolver {
 public:
  void run(SyntaxTree& tree) {
    collect_blocks(tree);
    FunctionScope& root = new_function(nullptr);
    Symbols symbols(nullptr, &root);
    if (undeclared(tree.body, {"self"}).contains("self")) tree.self_slot = symbols.declare_parameter("self");
    Analyzer(symbols).body(tree.body);
    tree.scope = enter(symbols);
    body(tree.body, {.symbols = &symbols, .function = &root, .is_top_level = true});
    tree.num_slots = static_cast<int>(root.slots.size());
    for (const auto& [name, block] : tree.blocks) resolve_block(const_cast<Statement&>(*block));
    tree.undeclared.assign(undeclared_.begin(), undeclared_.end());
  }

 private:
  FunctionScope& new_function(FunctionScope* parent) { return functions_.emplace_back(parent); }

  Scope enter(const Symbols& symbols) {
    Scope scope{symbols.loads()};
    for (const ScopeLoad& load : scope.loads) {
      if (load.kind == ScopeLoad::Kind::kResolve && !is_global(load.name)) undeclared_.insert(load.name);
    }
    return scope;
  }

  static void collect_blocks(SyntaxTree& tree) {
    for_each_node(tree.body, {[](const Expression&) {},
                              [&](const Statement& node) {
                                if (node.kind != SKind::kBlock) return;
                                for (const auto& [name, block] : tree.blocks) {
                                  if (name == node.name) {
                                    fail(TemplateError::Kind::kSyntax, fmt::format("block '{}' defined twice", name),
                                         node.line);
                                  }
                                }
                                tree.blocks.emplace_back(node.name, &node);
                              }});
  }

  // A block is a function that sees only what the context holds, not the variables around it.
  void resolve_block(Statement& node) {
    FunctionScope& function = new_function(nullptr);
    Symbols symbols(nullptr, &function);
    const auto special = undeclared(node.body, {"self", "super"});
    if (special.contains("self")) node.self_slot = symbols.declare_parameter("self");
    if (special.contains("super")) node.super_slot = symbols.declare_parameter("super");
    Analyzer(symbols).body(node.body);
    node.scope = enter(symbols);
    body(node.body, {.symbols = &symbols, .function = &function});
    node.num_slots = static_cast<int>(function.slots.size());
  }

  void expression(const ExpressionPtr& node, const Context& at) {
    if (node) expression(*node, at);
  }
  void expressions(const std::vector<ExpressionPtr>& nodes, const Context& at) {
    for (const ExpressionPtr& node : nodes) expression(node, at);
  }
  void expression(Expression& node, Context at) {
    if (node.kind == EKind::kName || node.kind == EKind::kNamespaceTarget) {
      node.slot = at.symbols->slot_of(node.name, *at.function);
      return;
    }
    if (node.kind == EKind::kConditional) at.is_soft = true;
    if (!at.is_soft && node.kind == EKind::kFilter && find_filter(node.name) == nullptr) {
      fail(TemplateError::Kind::kSyntax, fmt::format("No filter named '{}'.", node.name), node.line);
    }
    if (!at.is_soft && node.kind == EKind::kTest && find_test(node.name) == nullptr) {
      fail(TemplateError::Kind::kSyntax, fmt::format("No test named '{}'.", node.name), node.line);
    }
    for_each_child(node, [&](const Expression& child) { expression(const_cast<Expression&>(child), at); });
  }

  void body(Body& statements, const Context& at) {
    for (const StatementPtr& node : statements) statement(*node, at);
  }

  void statement(Statement& node, const Context& at) {
    switch (node.kind) {
      case SKind::kData:
        return;
      case SKind::kOutput:
      case SKind::kLoadTemplate:
        expressions(node.expressions, at);
        expression(node.expression, at);
        return;
      case SKind::kIf:
        visit_if(node, at);
        return;
      case SKind::kFor:
        visit_for(node, at);
        return;
      case SKind::kSet:
        expressions(node.targets, at);
        expression(node.expression, at);
        export_targets(node, at);
        return;
      case SKind::kSetBlock:
        visit_scoped(node, at, [&](Analyzer& analyzer) { analyzer.body(node.body); });
        expressions(node.targets, at);
        export_targets(node, at);
        return;
      case SKind::kFilterBlock:
        visit_scoped(node, at, [&](Analyzer& analyzer) {
          analyzer.body(node.body);
          analyzer.expression(node.expression);
        });
        return;
      case SKind::kAutoescape:
        visit_scoped(node, at, [&](Analyzer& analyzer) {
          analyzer.expressions(node.expressions);
          analyzer.body(node.body);
        });
        return;
      case SKind::kWith:
        visit_with(node, at);
        return;
      case SKind::kMacro:
        visit_callable(node, at);
        node.slot = at.symbols->slot_of(node.name, *at.function);
        if (at.is_top_level) node.exported.emplace_back(node.name, node.slot);
        return;
      case SKind::kCallBlock:
        visit_callable(node, at);
        expression(node.expression, at);
        return;
      case SKind::kGeneration:
        visit_callable(node, at);
        return;
      case SKind::kBlock:
        if (node.is_scoped) node.visible = at.symbols->visible_stores(*at.function);
        return;
      case SKind::kBreak:
      case SKind::kContinue:
        if (at.loops > 0) return;
        fail(TemplateError::Kind::kSyntax,
             node.kind == SKind::kBreak ? "'break' outside loop" : "'continue' not properly in loop", node.line);
    }
  }

  static void export_targets(Statement& node, const Context& at) {
    if (!at.is_top_level) return;
    std::function<void(const Expression&)> visit = [&](const Expression& target) {
      if (target.kind == EKind::kName) node.exported.emplace_back(target.name, target.slot);
      for (const ExpressionPtr& item : target.operands) visit(*item);
    };
    visit(*node.targets[0]);
  }

  void visit_if(Statement& node, Context at) {
    at.is_soft = true;
    expression(node.expression, at);
    body(node.body, at);
    for (const StatementPtr& branch : node.elifs) {
      expression(branch->expression, at);
      body(branch->body, at);
    }
    body(node.otherwise, at);
  }

  // A scope of its own within the function.
  template <class Analyze>
  void visit_scoped(Statement& node, const Context& at, Analyze analyze) {
    Symbols symbols(at.symbols, at.function);
    Analyzer analyzer(symbols);
    analyze(analyzer);
    node.scope = enter(symbols);
    const Context inner{.symbols = &symbols, .function = at.function, .loops = at.loops};
    expressions(node.expressions, inner);
    expression(node.expression, inner);
    body(node.body, inner);
  }

  void visit_with(Statement& node, const Context& at) {
    Symbols symbols(at.symbols, at.function);
    Analyzer analyzer(symbols);
    for (const ExpressionPtr& target : node.targets) analyzer.parameters(*target);
    analyzer.body(node.body);
    node.scope = enter(symbols);
    const Context inner{.symbols = &symbols, .function = at.function, .loops = at.loops};
    expressions(node.targets, inner);
    expressions(node.expressions, at);
    body(node.body, inner);
  }

  void visit_for(Statement& node, const Context& at) {
    const bool uses_loop =
        node.is_recursive || undeclared(node.body, {"loop"}).contains("loop") || has_scoped_block(node);
    const Children check{[](const Expression& child) { check_loop_target(child); }, [](const Statement&) {}};
    for_each_node(node.body, check);
    for_each_node(node.otherwise, check);
    check_loop_target(*node.targets[0]);

    FunctionScope* const function = node.is_recursive ? &new_function(at.function) : at.function;
    Symbols symbols(at.symbols, function);
    if (uses_loop) node.loop_slot = symbols.declare_parameter("loop");
    Analyzer analyzer(symbols);
    analyzer.parameters(*node.targets[0]);
    analyzer.body(node.body);
    node.scope = enter(symbols);

    Symbols else_symbols(at.symbols, function);
    Analyzer(else_symbols).body(node.otherwise);
    node.else_scope = enter(else_symbols);

    expression(node.expression, at);
    if (node.filter) visit_loop_filter(node, at);
    const Context inner{.symbols = &symbols, .function = function, .loops = (node.is_recursive ? 0 : at.loops) + 1};
    expression(node.targets[0], inner);
    body(node.body, inner);
    body(node.otherwise, {.symbols = &else_symbols, .function = function, .loops = inner.loops - 1});
    if (node.is_recursive) node.num_slots = static_cast<int>(function->slots.size());
  }

  // The `if` of a loop runs in a function of its own, with the loop's target as its variables.
  void visit_loop_filter(Statement& node, const Context& at) {
    FunctionScope& function = new_function(at.function);
    Symbols symbols(at.symbols, &function);
    Analyzer analyzer(symbols);
    analyzer.parameters(*node.targets[0]);
    analyzer.expression(node.filter);
    node.filter_scope = enter(symbols);
    const Context inner{.symbols = &symbols, .function = &function};
    node.filter_targets = target_slots(*node.targets[0], inner);
    expression(node.filter, inner);
    node.num_filter_slots = static_cast<int>(function.slots.size());
  }

  // Slots of the names of a target, in order.
  static std::vector<int> target_slots(const Expression& target, const Context& at) {
    if (target.kind == EKind::kName) return {at.symbols->slot_of(target.name, *at.function).slot};
    std::vector<int> slots;
    for (const ExpressionPtr& item : target.operands) {
      const std::vector<int> inner = target_slots(*item, at);
      slots.insert(slots.end(), inner.begin(), inner.end());
    }
    return slots;
  }

  static bool has_scoped_block(const Statement& node) {
    bool found = false;
    const Children look{
        [](const Expression&) {},
        [&](const Statement& child) { found = found || (child.kind == SKind::kBlock && child.is_scoped); }};
    for_each_node(node.body, look);
    for_each_node(node.otherwise, look);
    return found;
  }

  static void check_loop_target(const Expression& node) {
    if (node.kind == EKind::kName && node.is_store && !node.is_parameter && node.name == "loop") {
      fail(TemplateError::Kind::kSyntax, "Can't assign to special loop variable in for-loop target", node.line);
    }
    for (const ExpressionPtr& item : node.operands) {
      if (item && node.kind == EKind::kTuple) check_loop_target(*item);
    }
  }

  // The body of a macro, of a call block, or of a generation block.
  void visit_callable(Statement& node, const Context& at) {
    FunctionScope& function = new_function(at.function);
    Symbols symbols(at.symbols, &function);
    Signature& signature = node.signature;
    const auto analyze = [&] {
      Analyzer analyzer(symbols);
      analyzer.expressions(signature.parameters);
      analyzer.expressions(signature.defaults);
      analyzer.body(node.body);
    };
    analyze();
    const auto is_parameter = [&](std::string_view name) {
      return std::any_of(signature.parameters.begin(), signature.parameters.end(),
                         [&](const ExpressionPtr& parameter) { return parameter->name == name; });
    };
    const auto special = undeclared(node.body, {"caller", "kwargs", "varargs"});
    signature.uses_caller = special.contains("caller");
    if (signature.uses_caller && is_parameter("caller")) {
      const size_t required = signature.parameters.size() - signature.defaults.size();
      for (size_t i = 0; i < required; ++i) {
        if (signature.parameters[i]->name != "caller") continue;
        fail(TemplateError::Kind::kSyntax,
             "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a "
             "default.",
             node.line);
      }
    } else if (signature.uses_caller) {
      signature.caller_slot = symbols.declare_parameter("caller");
    }
    if (special.contains("kwargs") && !is_parameter("kwargs")) {
      signature.kwargs_slot = symbols.declare_parameter("kwargs");
    }
    if (special.contains("varargs") && !is_parameter("varargs")) {
      signature.varargs_slot = symbols.declare_parameter("varargs");
    }
    analyze();
    node.scope = enter(symbols);
    const Context inner{.symbols = &symbols, .function = &function};
    expressions(signature.parameters, inner);
    expressions(signature.defaults, inner);
    body(node.body, inner);
    signature.num_slots = static_cast<int>(function.slots.size());
  }

  std::deque<FunctionScope> functions_;
  std::set<std::string> undeclared_;
};

}  // namespace

void resolve_names(SyntaxTree& tree) {
  Resolver().run(tree);
}

}  // namespace unspool::jinja
