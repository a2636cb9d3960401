// Grammars that make a model write calls of tools which the parsers can read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/output_parser.h"
#include "json/json.h"

namespace unspool::chat {

// How the calls of a format look to xgrammar's structural tags.
enum class CallStyle : uint8_t { kHermes, kLlamaJson, kQwen3Xml };

// The structural tag, or nullopt where nothing is to be constrained.
std::optional<std::string> structural_tag(CallStyle style, const ToolGrammarRequest& request);

// For formats without a grammar of their own: the schema of a forced call in JSON. A list of objects, of which each has
// the name of a tool and, as "parameters", its arguments; or for a named tool the arguments alone.
std::optional<std::string> forced_call_schema(const ToolGrammarRequest& request);
// Mistral's list, whose members are "name" and "arguments" for a named tool as well. Not where the request has a format
// of its own.
std::optional<std::string> mistral_call_schema(const ToolGrammarRequest& request);

}  // namespace unspool::chat
