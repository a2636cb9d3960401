// Arguments brought to the types that a tool's schema names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/python_json.h"

namespace unspool::chat {

// The types that a schema allows, by name, each once; "string" where it says nothing.
std::vector<std::string> types_of_schema(const PythonJson& schema);

// A text as the first of the types that it can be read as: null, integer, number, boolean, object or array, string.
// Where it can be none of them, as JSON, or as it is.
PythonJson coerce_text(std::string_view text, const std::vector<std::string>& types);

// Coerces the members of `arguments`, an object, whose names are among `properties`. False where nothing changed.
bool coerce_arguments(PythonJson& arguments, const PythonJson& properties);

}  // namespace unspool::chat
