// What a request's output must match. Which texts of a kind are valid is the grammar engine's affair.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace unspool {

enum class GrammarKind {
  kJsonSchema,     // the text is the schema
  kRegex,          // the pattern, which the whole output matches
  kEbnf,           // a grammar in GBNF, from its rule `root`
  kLark,           // a grammar in Lark's syntax, from its rule `start`
  kStructuralTag,  // the tag as JSON
};

// All that a compiled grammar depends on, beside the vocabulary.
struct GrammarSpec {
  GrammarKind kind = GrammarKind::kJsonSchema;
  std::string text;
  bool any_whitespace = true;  // between JSON's tokens; false: none at all
  auto operator<=>(const GrammarSpec&) const = default;
};

// A token that ends a model's reasoning.
struct ReasoningEnd {
  int32_t token_id = -1;
  bool is_content = false;  // the token itself belongs to what is constrained (a tool call that begins while thinking)
};

struct StructuredOutputs {
  GrammarSpec grammar;
  std::string field;  // of the request, that the error about a bad structural tag names; empty: none
  // A reasoning model's output is free up to the first of these; empty: constrained from its first token. Whether the
  // prompt has ended the reasoning already is for the caller to know: then this is empty.
  std::vector<ReasoningEnd> reasoning_ends;
};

}  // namespace unspool
