// Binds the names of a template to variables, and makes the checks that jinja2 makes when it compiles.
#pragma once

#include "jinja/ast.h"

namespace unspool::jinja {

void resolve_names(SyntaxTree& tree);

}  // namespace unspool::jinja
