// Visits the children of a node in the order of jinja2's fields, on which some of its rules depend.
#pragma once

#include <functional>

#include "jinja/ast.h"

namespace unspool::jinja {

struct Children {
  std::function<void(const Expression&)> expression;
  std::function<void(const Statement&)> statement;
};

void for_each_child(const Expression& node, const std::function<void(const Expression&)>& visit);
void for_each_child(const Statement& node, const Children& visit);

// Every statement and expression of a body, at any depth.
void for_each_node(const Body& body, const Children& visit);

}  // namespace unspool::jinja
