// Tokens to a syntax tree, by jinja2's grammar.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace unspool::jinja {

// Variables are not resolved yet (resolver.h). Throws a Fault of kind kSyntax that says what was expected.
SyntaxTree parse(std::string_view source);

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}
  Body parse_template();

 private:
  // --- the token stream
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(TokenType type) const { return current().type == type; }
  bool skip_if(TokenType type);
  bool skip_if_name(std::string_view name);
  const Token& expect(TokenType type);
  void expect_name(std::string_view name);
  [[noreturn]] void fail_here(std::string message, int line = 0) const;

  // --- statement_parser.cc
  using EndTags = std::initializer_list<std::string_view>;
  // Statements up to one of the tags, which stays the current token. An empty list: up to the end of the template.
  Body parse_body(EndTags end_tags);
  Body parse_block_body(EndTags end_tags);
  void parse_data(Body& body);
  [[noreturn]] void fail_tag(const std::string* unknown, int line) const;
  StatementPtr parse_statement();
  StatementPtr parse_for();
  StatementPtr parse_if();
  StatementPtr parse_set();
  StatementPtr parse_macro();
  StatementPtr parse_call_block();
  StatementPtr parse_filter_block();
  StatementPtr parse_with();
  StatementPtr parse_print();
  StatementPtr parse_named_block();
  StatementPtr parse_autoescape();
  StatementPtr parse_generation();
  StatementPtr parse_template_reference(const std::string& tag);
  Signature parse_signature();
  // A name, a tuple of names, or (with_namespace) an attribute of a namespace.
  ExpressionPtr parse_target(bool with_namespace, std::string_view end_name = {});
  ExpressionPtr parse_name_target();
  void mark_stored(Expression& target) const;
  static void mark_parameter(Expression& target);

  // --- expression_parser.cc
  struct TupleRules {
    bool simplified = false;
    bool with_conditional = true;
    bool in_parentheses = false;
    bool with_namespace = false;
    std::string_view end_name = {};  // a name that ends the tuple too
  };
  ExpressionPtr parse_tuple(TupleRules rules);
  ExpressionPtr parse_expression(bool with_conditional = true);
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filter = true);
  ExpressionPtr parse_primary(bool with_namespace = false);
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr operand);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr operand);
  ExpressionPtr parse_subscript(ExpressionPtr operand);
  ExpressionPtr parse_subscribed(ExpressionPtr object, int line);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_filter(ExpressionPtr operand, bool start_inline = false);
  ExpressionPtr parse_test(ExpressionPtr operand);
  CallArguments parse_arguments();
  std::string parse_dotted_name();

  ExpressionPtr make(Expression::Kind kind, int line, std::vector<ExpressionPtr> operands = {}) const;
  template <class... Operands>
  ExpressionPtr make_with(Expression::Kind kind, int line, Operands... operands) const {
    std::vector<ExpressionPtr> list;
    (list.push_back(std::move(operands)), ...);
    return make(kind, line, std::move(list));
  }
  // Counts the arguments' levels.
  void add_arguments(Expression& expression, CallArguments arguments) const;
  void check_nesting(Expression& expression, const Expression& inner) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;                                        // of brackets and blocks
  std::vector<std::string> open_tags_;                   // for messages
  std::vector<std::vector<std::string_view>> end_tags_;  // what each open block waits for
  friend class ParserLevel;
};

}  // namespace unspool::jinja
