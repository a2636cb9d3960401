#include "chat/content_format.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast_walk.h"

namespace unspool::chat {
namespace {

using jinja::Expression;
using jinja::Statement;
using EKind = Expression::Kind;
using SKind = Statement::Kind;

bool is_variable(const Expression& node, std::string_view name) {
  return node.kind == EKind::kName && !node.is_store && node.name == name;
}

// name.key or name['key'].
bool is_member(const Expression& node, std::string_view name, std::string_view key) {
  if (node.kind == EKind::kAttribute) return is_variable(*node.operands[0], name) && node.name == key;
  return node.kind == EKind::kItem && is_variable(*node.operands[0], name) &&
         node.operands[1]->kind == EKind::kConstant && node.operands[1]->constant.is_string() &&
         node.operands[1]->constant.text().view() == key;
}

// The variable (or its member `key`) itself, filtered, tested or sliced.
bool refers_to(const Expression& node, std::string_view name, std::string_view key = {}) {
  const bool is_wrapped = node.kind == EKind::kFilter || node.kind == EKind::kTest || node.kind == EKind::kSlice;
  if (is_wrapped) return node.operands[0] && refers_to(*node.operands[0], name, key);
  return key.empty() ? is_variable(node, name) : is_member(node, name, key);
}

struct Nodes {
  std::vector<const Statement*> loops;
  std::vector<const Statement*> sets;
  std::vector<const Statement*> macros;
  std::vector<const Expression*> calls;
};

Nodes collect(const jinja::Body& body) {
  Nodes nodes;
  jinja::for_each_node(body, {[&](const Expression& node) {
                                if (node.kind == EKind::kCall) nodes.calls.push_back(&node);
                              },
                              [&](const Statement& node) {
                                if (node.kind == SKind::kFor) nodes.loops.push_back(&node);
                                if (node.kind == SKind::kSet) nodes.sets.push_back(&node);
                                if (node.kind == SKind::kMacro) nodes.macros.push_back(&node);
                              }});
  return nodes;
}

// The rule expects names for targets; where one is none, it gives up and says kString.
struct NotAName : std::exception {};

const std::string& target_name(const Statement& node) {
  const Expression& target = *node.targets[0];
  if (target.kind != EKind::kName) throw NotAName();
  return target.name;
}

// `messages` and every variable that is set from it, directly or not.
std::set<std::string> message_lists(const Nodes& nodes) {
  std::set<std::string> found{"messages"};
  std::vector<std::string> pending{"messages"};
  while (!pending.empty()) {
    const std::string name = pending.back();
    pending.pop_back();
    for (const Statement* set : nodes.sets) {
      if (!refers_to(*set->expression, name)) continue;
      if (found.insert(target_name(*set)).second) pending.push_back(target_name(*set));
    }
  }
  return found;
}

bool any_refers(const std::set<std::string>& names, const Expression& node, std::string_view key) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return refers_to(node, name, key); });
}

// Parameters of a macro that some call gives a message's content.
std::set<std::string> content_parameters(const Statement& macro, const Nodes& nodes,
                                         const std::set<std::string>& messages) {
  std::set<std::string> found;
  const auto& parameters = macro.signature.parameters;
  for (const Expression* call : nodes.calls) {
    const Expression& callee = *call->operands[0];
    if (callee.kind != EKind::kName || callee.name != macro.name) continue;
    const auto& positional = call->arguments.positional;
    for (size_t i = 0; i < std::min(positional.size(), parameters.size()); ++i) {
      if (any_refers(messages, *positional[i], "content")) found.insert(parameters[i]->name);
    }
    for (const jinja::Keyword& keyword : call->arguments.keywords) {
      if (any_refers(messages, *keyword.value, "content")) found.insert(keyword.name);
    }
  }
  return found;
}

bool loops_over_parts(const jinja::SyntaxTree& tree) {
  const Nodes nodes = collect(tree.body);
  const std::set<std::string> lists = message_lists(nodes);
  std::set<std::string> messages;
  for (const Statement* loop : nodes.loops) {
    if (any_refers(lists, *loop->expression, {})) messages.insert(target_name(*loop));
  }
  std::set<const Statement*> in_macros;
  std::set<const Statement*> over_parameters;
  for (const Statement* macro : nodes.macros) {
    const std::set<std::string> parameters = content_parameters(*macro, nodes, messages);
    for (const Statement* loop : collect(macro->body).loops) {
      in_macros.insert(loop);
      const Expression& over = *loop->expression;
      if (over.kind == EKind::kName && parameters.contains(over.name)) over_parameters.insert(loop);
    }
  }
  return std::any_of(nodes.loops.begin(), nodes.loops.end(), [&](const Statement* loop) {
    const Expression& over = *loop->expression;
    const bool is_parts = any_refers(messages, over, "content") || over_parameters.contains(loop) ||
                          (!in_macros.contains(loop) && over.kind == EKind::kName && over.name == "content");
    if (is_parts) target_name(*loop);
    return is_parts;
  });
}

}  // namespace

ContentFormat detect_content_format(const jinja::SyntaxTree& tree) {
  try {
    return loops_over_parts(tree) ? ContentFormat::kOpenAi : ContentFormat::kString;
  } catch (const NotAName&) {
    return ContentFormat::kString;
  }
}

}  // namespace unspool::chat
