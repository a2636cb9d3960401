#include "jinja/ast_walk.h"

namespace unspool::jinja {
namespace {

void visit_if(const ExpressionPtr& node, const std::function<void(const Expression&)>& visit) {
  if (node) visit(*node);
}
void visit_all(const std::vector<ExpressionPtr>& nodes, const std::function<void(const Expression&)>& visit) {
  for (const ExpressionPtr& node : nodes) visit_if(node, visit);
}

void walk(const Expression& node, const Children& visit) {
  visit.expression(node);
  for_each_child(node, [&](const Expression& child) { walk(child, visit); });
}
void walk(const Statement& node, const Children& visit) {
  visit.statement(node);
  for_each_child(node, {[&](const Expression& child) { walk(child, visit); },
                        [&](const Statement& child) { walk(child, visit); }});
}

}  // namespace

void for_each_child(const Expression& node, const std::function<void(const Expression&)>& visit) {
  visit_all(node.operands, visit);
  visit_all(node.arguments.positional, visit);
  for (const Keyword& keyword : node.arguments.keywords) visit(*keyword.value);
  visit_if(node.arguments.star, visit);
  visit_if(node.arguments.star_star, visit);
}

void for_each_child(const Statement& node, const Children& visit) {
  using Kind = Statement::Kind;
  const auto body = [&](const Body& statements) {
    for (const StatementPtr& statement : statements) visit.statement(*statement);
  };
  switch (node.kind) {
    case Kind::kFor:
      visit_all(node.targets, visit.expression);
      visit_if(node.expression, visit.expression);
      body(node.body);
      body(node.otherwise);
      visit_if(node.filter, visit.expression);
      return;
    case Kind::kIf:
      visit_if(node.expression, visit.expression);
      body(node.body);
      body(node.elifs);
      body(node.otherwise);
      return;
    case Kind::kFilterBlock:
      body(node.body);
      visit_if(node.expression, visit.expression);
      return;
    default:
      visit_all(node.targets, visit.expression);
      visit_all(node.expressions, visit.expression);
      visit_if(node.expression, visit.expression);
      visit_all(node.signature.parameters, visit.expression);
      visit_all(node.signature.defaults, visit.expression);
      body(node.body);
  }
}

void for_each_node(const Body& body, const Children& visit) {
  for (const StatementPtr& statement : body) walk(*statement, visit);
}

}  // namespace unspool::jinja
