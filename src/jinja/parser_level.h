// How deep brackets, blocks and operators may nest in a template.
#pragma once

#include "jinja/parser.h"
#include "jinja/template_error.h"

namespace unspool::jinja {

// Both bound the stack of what recurses over the tree: the parser, the resolver, the interpreter and the destructor.
// The deepest template that ships with a model has 12 levels of brackets and blocks, and chains of some 30 operators.
inline constexpr int kMaxParserDepth = 100;
inline constexpr int kMaxExpressionNesting = 400;

class ParserLevel {
 public:
  explicit ParserLevel(Parser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxParserDepth) {
      fail(TemplateError::Kind::kLimit, "the template is nested too deep", parser_.current().line);
    }
  }
  ~ParserLevel() { --parser_.depth_; }
  ParserLevel(const ParserLevel&) = delete;
  ParserLevel& operator=(const ParserLevel&) = delete;

 private:
  Parser& parser_;
};

}  // namespace unspool::jinja
