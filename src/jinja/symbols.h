// Which variable a name means in a scope: jinja2's idtracking, whose corner cases templates can see.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jinja/ast.h"

namespace unspool::jinja {

// A function of the code that jinja2 generates: the root, a macro, a block, the test of a loop, or a recursive loop.
// Its variables are slots of a frame.
struct FunctionScope {
  explicit FunctionScope(FunctionScope* parent) : parent(parent), depth(parent == nullptr ? 0 : parent->depth + 1) {}
  FunctionScope* parent;
  int depth;
  // By level and name: scopes of one level share their variables, as the locals of one Python function do.
  std::map<std::pair<int, std::string>, int> slots;

  int slot_of(int level, const std::string& name) {
    return slots.emplace(std::pair(level, name), static_cast<int>(slots.size())).first->second;
  }
};

class Symbols {
 public:
  Symbols(Symbols* parent, FunctionScope* function)
      : parent_(parent), function_(function), level_(parent == nullptr ? 0 : parent->level_ + 1) {}

  // A variable is a slot of a function.
  struct Variable {
    FunctionScope* function;
    int slot;
  };

  void store(const std::string& name);
  void load(const std::string& name);
  int declare_parameter(const std::string& name);
  void update_from_branches(const std::vector<Symbols>& branches);

  std::optional<Variable> find(const std::string& name) const;
  // As seen from `function`.
  Slot slot_of(const std::string& name, const FunctionScope& function) const;
  static Slot relative(Variable variable, const FunctionScope& function);

  // What entering the scope does to its variables.
  std::vector<ScopeLoad> loads() const;
  // Every name stored here or further out, with where it is: what a scoped block sees.
  std::vector<std::pair<std::string, Slot>> visible_stores(const FunctionScope& function) const;

 private:
  struct Load {
    enum class Kind { kParameter, kResolve, kAlias, kUndefined };
    Kind kind;
    Variable alias{};
    std::string name{};
  };
  int define(const std::string& name, Load load);
  void set_load(int slot, Load load);

  Symbols* parent_;
  FunctionScope* function_;
  int level_;
  std::map<std::string, int> refs_;          // name to slot
  std::vector<std::pair<int, Load>> loads_;  // by slot, in the order of their definition
  std::set<std::string> stores_;
};

}  // namespace unspool::jinja
