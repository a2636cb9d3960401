#include "jinja/symbols.h"

#include <algorithm>

#include "base/check.h"

namespace unspool::jinja {

void Symbols::set_load(int slot, Load load) {
  const auto found = std::find_if(loads_.begin(), loads_.end(), [&](const auto& entry) { return entry.first == slot; });
  if (found == loads_.end()) {
    loads_.emplace_back(slot, std::move(load));
  } else {
    found->second = std::move(load);
  }
}

int Symbols::define(const std::string& name, Load load) {
  const int slot = function_->slot_of(level_, name);
  refs_[name] = slot;
  set_load(slot, std::move(load));
  return slot;
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (refs_.contains(name)) return;
  if (parent_ != nullptr) {
    if (const auto outer = parent_->find(name)) {
      define(name, {Load::Kind::kAlias, *outer});
      return;
    }
  }
  define(name, {Load::Kind::kUndefined});
}

void Symbols::load(const std::string& name) {
  if (!find(name)) define(name, {Load::Kind::kResolve, {}, name});
}

int Symbols::declare_parameter(const std::string& name) {
  stores_.insert(name);
  return define(name, {Load::Kind::kParameter});
}

void Symbols::update_from_branches(const std::vector<Symbols>& branches) {
  std::set<std::string> stored;
  for (const Symbols& branch : branches) stored.insert(branch.stores_.begin(), branch.stores_.end());
  for (const std::string& name : stores_) stored.erase(name);
  for (const Symbols& branch : branches) {
    for (const auto& [name, slot] : branch.refs_) refs_[name] = slot;
    for (const auto& [slot, load] : branch.loads_) set_load(slot, load);
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  // A name that only some branches set is, in the others, what it was outside.
  for (const std::string& name : stored) {
    const int slot = refs_.at(name);
    const auto outer = parent_ == nullptr ? std::nullopt : parent_->find(name);
    set_load(slot, outer ? Load{Load::Kind::kAlias, *outer} : Load{Load::Kind::kResolve, {}, name});
  }
}

std::optional<Symbols::Variable> Symbols::find(const std::string& name) const {
  for (const Symbols* scope = this; scope != nullptr; scope = scope->parent_) {
    const auto found = scope->refs_.find(name);
    if (found != scope->refs_.end()) return Variable{scope->function_, found->second};
  }
  return std::nullopt;
}

Slot Symbols::relative(Variable variable, const FunctionScope& function) {
  return {function.depth - variable.function->depth, variable.slot};
}

Slot Symbols::slot_of(const std::string& name, const FunctionScope& function) const {
  const auto variable = find(name);
  UNSPOOL_CHECK(variable.has_value(), "the name '{}' was not analysed", name);
  return relative(*variable, function);
}

std::vector<ScopeLoad> Symbols::loads() const {
  std::vector<ScopeLoad> out;
  for (const auto& [slot, load] : loads_) {
    switch (load.kind) {
      case Load::Kind::kParameter:
        break;
      case Load::Kind::kResolve:
        out.push_back({ScopeLoad::Kind::kResolve, slot, {}, load.name});
        break;
      case Load::Kind::kAlias:
        out.push_back({ScopeLoad::Kind::kAlias, slot, relative(load.alias, *function_), {}});
        break;
      case Load::Kind::kUndefined:
        out.push_back({ScopeLoad::Kind::kUndefined, slot, {}, {}});
    }
  }
  return out;
}

std::vector<std::pair<std::string, Slot>> Symbols::visible_stores(const FunctionScope& function) const {
  std::map<std::string, Slot> out;
  for (const Symbols* scope = this; scope != nullptr; scope = scope->parent_) {
    for (const std::string& name : scope->stores_) {
      if (!out.contains(name)) out.emplace(name, slot_of(name, function));
    }
  }
  return {out.begin(), out.end()};
}

}  // namespace unspool::jinja
