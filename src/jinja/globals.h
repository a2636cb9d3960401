// The names that every template has: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "jinja/object.h"
#include "jinja/value.h"

namespace unspool::jinja {

bool is_global(std::string_view name);
std::optional<Value> find_global(std::string_view name);

// `self`: the blocks of the template.
std::unique_ptr<Object> make_self();

}  // namespace unspool::jinja
