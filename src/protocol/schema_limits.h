// Which JSON schemas are refused before a grammar is made of them.
#pragma once

#include "json/json.h"
#include "protocol/api_error.h"

namespace unspool {

// The cost of a grammar grows steeply with nesting.
MaybeError check_schema_nesting(const JsonValue& schema);
// A structural tag wraps its schemas in some levels of its own.
MaybeError check_tag_nesting(const JsonValue& tag);

// Whether the schema uses what the grammar engine leaves out of account. Of one that passes check_schema_nesting().
bool has_unsupported_features(const JsonValue& schema);

}  // namespace unspool
