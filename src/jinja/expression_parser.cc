#include <fmt/format.h>

#include <algorithm>

#include "jinja/parser.h"
#include "jinja/parser_level.h"

namespace unspool::jinja {

using Kind = Expression::Kind;

void Parser::check_nesting(Expression& expression, const Expression& inner) const {
  expression.nesting = std::max(expression.nesting, inner.nesting + 1);
  if (expression.nesting > kMaxExpressionNesting) {
    fail(TemplateError::Kind::kLimit, "the expression is nested too deep", expression.line);
  }
}

ExpressionPtr Parser::make(Kind kind, int line, std::vector<ExpressionPtr> operands) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  for (const ExpressionPtr& operand : operands) {
    if (operand) check_nesting(*node, *operand);
  }
  node->operands = std::move(operands);
  return node;
}

void Parser::add_arguments(Expression& expression, CallArguments arguments) const {
  for (const ExpressionPtr& argument : arguments.positional) check_nesting(expression, *argument);
  for (const Keyword& keyword : arguments.keywords) check_nesting(expression, *keyword.value);
  if (arguments.star) check_nesting(expression, *arguments.star);
  if (arguments.star_star) check_nesting(expression, *arguments.star_star);
  expression.arguments = std::move(arguments);
}

ExpressionPtr Parser::parse_expression(bool with_conditional) {
  const ParserLevel level(*this);
  return with_conditional ? parse_conditional() : parse_or();
}

ExpressionPtr Parser::parse_conditional() {
  int line = current().line;
  ExpressionPtr value = parse_or();
  while (skip_if_name("if")) {
    ExpressionPtr test = parse_or();
    ExpressionPtr otherwise;
    if (skip_if_name("else")) {
      const ParserLevel level(*this);
      otherwise = parse_conditional();
    }
    value = make_with(Kind::kConditional, line, std::move(test), std::move(value), std::move(otherwise));
    line = current().line;
  }
  return value;
}

ExpressionPtr Parser::parse_or() {
  int line = current().line;
  ExpressionPtr left = parse_and();
  while (skip_if_name("or")) {
    ExpressionPtr right = parse_and();
    left = make_with(Kind::kOr, line, std::move(left), std::move(right));
    line = current().line;
  }
  return left;
}

ExpressionPtr Parser::parse_and() {
  int line = current().line;
  ExpressionPtr left = parse_not();
  while (skip_if_name("and")) {
    ExpressionPtr right = parse_not();
    left = make_with(Kind::kAnd, line, std::move(left), std::move(right));
    line = current().line;
  }
  return left;
}

ExpressionPtr Parser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const ParserLevel level(*this);
  const int line = next().line;
  return make_with(Kind::kNot, line, parse_not());
}

ExpressionPtr Parser::parse_compare() {
  const int line = current().line;
  std::vector<ExpressionPtr> operands;
  std::vector<Comparison> comparisons;
  operands.push_back(parse_sum());
  for (;;) {
    if (is(TokenType::kEqual)) {
      comparisons.push_back(Comparison::kEqual);
    } else if (is(TokenType::kNotEqual)) {
      comparisons.push_back(Comparison::kNotEqual);
    } else if (is(TokenType::kLess)) {
      comparisons.push_back(Comparison::kLess);
    } else if (is(TokenType::kLessEqual)) {
      comparisons.push_back(Comparison::kLessEqual);
    } else if (is(TokenType::kGreater)) {
      comparisons.push_back(Comparison::kGreater);
    } else if (is(TokenType::kGreaterEqual)) {
      comparisons.push_back(Comparison::kGreaterEqual);
    } else if (current().is_name("in")) {
      comparisons.push_back(Comparison::kIn);
    } else if (current().is_name("not") && ahead().is_name("in")) {
      next();
      comparisons.push_back(Comparison::kNotIn);
    } else {
      break;
    }
    next();
    operands.push_back(parse_sum());
  }
  if (comparisons.empty()) return std::move(operands[0]);
  ExpressionPtr node = make(Kind::kCompare, line, std::move(operands));
  node->comparisons = std::move(comparisons);
  return node;
}

ExpressionPtr Parser::parse_sum() {
  int line = current().line;
  ExpressionPtr left = parse_concat();
  while (is(TokenType::kAdd) || is(TokenType::kSubtract)) {
    const BinaryOperator op = next().type == TokenType::kAdd ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    ExpressionPtr right = parse_concat();
    left = make_with(Kind::kBinary, line, std::move(left), std::move(right));
    left->op = op;
    line = current().line;
  }
  return left;
}

ExpressionPtr Parser::parse_concat() {
  const int line = current().line;
  std::vector<ExpressionPtr> items;
  items.push_back(parse_product());
  while (skip_if(TokenType::kTilde)) items.push_back(parse_product());
  if (items.size() == 1) return std::move(items[0]);
  return make(Kind::kConcat, line, std::move(items));
}

ExpressionPtr Parser::parse_product() {
  int line = current().line;
  ExpressionPtr left = parse_power();
  for (;;) {
    BinaryOperator op;
    if (is(TokenType::kMultiply)) {
      op = BinaryOperator::kMultiply;
    } else if (is(TokenType::kDivide)) {
      op = BinaryOperator::kDivide;
    } else if (is(TokenType::kFloorDivide)) {
      op = BinaryOperator::kFloorDivide;
    } else if (is(TokenType::kModulo)) {
      op = BinaryOperator::kModulo;
    } else {
      return left;
    }
    next();
    ExpressionPtr right = parse_power();
    left = make_with(Kind::kBinary, line, std::move(left), std::move(right));
    left->op = op;
    line = current().line;
  }
}

// From the left, unlike Python's.
ExpressionPtr Parser::parse_power() {
  int line = current().line;
  ExpressionPtr left = parse_unary();
  while (skip_if(TokenType::kPower)) {
    ExpressionPtr right = parse_unary();
    left = make_with(Kind::kBinary, line, std::move(left), std::move(right));
    left->op = BinaryOperator::kPower;
    line = current().line;
  }
  return left;
}

ExpressionPtr Parser::parse_unary(bool with_filter) {
  const int line = current().line;
  ExpressionPtr node;
  if (is(TokenType::kSubtract) || is(TokenType::kAdd)) {
    const ParserLevel level(*this);
    const Kind kind = next().type == TokenType::kSubtract ? Kind::kNegative : Kind::kPositive;
    node = make_with(kind, line, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::parse_primary(bool with_namespace) {
  const Token& token = current();
  switch (token.type) {
    case TokenType::kName: {
      next();
      const std::string& name = token.text;
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        ExpressionPtr node = make(Kind::kConstant, token.line);
        node->constant = Value::boolean(name == "true" || name == "True");
        return node;
      }
      if (name == "none" || name == "None") return make(Kind::kConstant, token.line);
      const bool is_attribute = with_namespace && skip_if(TokenType::kDot);
      ExpressionPtr node = make(is_attribute ? Kind::kNamespaceTarget : Kind::kName, token.line);
      node->name = name;
      if (is_attribute) node->attribute = expect(TokenType::kName).text;
      return node;
    }
    case TokenType::kString: {
      ExpressionPtr node = make(Kind::kConstant, token.line);
      std::string text;
      while (is(TokenType::kString)) text += next().text;
      node->constant = Value::string(text);
      return node;
    }
    case TokenType::kInteger:
    case TokenType::kFloat: {
      ExpressionPtr node = make(Kind::kConstant, token.line);
      node->constant = next().number;
      return node;
    }
    case TokenType::kLeftParen: {
      next();
      ExpressionPtr node = parse_tuple({.in_parentheses = true});
      expect(TokenType::kRightParen);
      return node;
    }
    case TokenType::kLeftBracket:
      return parse_list();
    case TokenType::kLeftBrace:
      return parse_dict();
    default:
      fail_here(fmt::format("unexpected '{}'", describe(token)));
  }
}

ExpressionPtr Parser::parse_tuple(TupleRules rules) {
  int line = current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect(TokenType::kComma);
    if (is(TokenType::kVariableEnd) || is(TokenType::kBlockEnd) || is(TokenType::kRightParen)) break;
    if (!rules.end_name.empty() && current().is_name(rules.end_name)) break;
    items.push_back(rules.simplified ? parse_primary(rules.with_namespace) : parse_expression(rules.with_conditional));
    if (!is(TokenType::kComma)) break;
    is_tuple = true;
    line = current().line;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!rules.in_parentheses) fail_here(fmt::format("Expected an expression, got '{}'", describe(current())));
  }
  return make(Kind::kTuple, line, std::move(items));
}

ExpressionPtr Parser::parse_list() {
  const int line = expect(TokenType::kLeftBracket).line;
  std::vector<ExpressionPtr> items;
  while (!is(TokenType::kRightBracket)) {
    if (!items.empty()) expect(TokenType::kComma);
    if (is(TokenType::kRightBracket)) break;
    items.push_back(parse_expression());
  }
  expect(TokenType::kRightBracket);
  return make(Kind::kList, line, std::move(items));
}

ExpressionPtr Parser::parse_dict() {
  const int line = expect(TokenType::kLeftBrace).line;
  std::vector<ExpressionPtr> items;
  while (!is(TokenType::kRightBrace)) {
    if (!items.empty()) expect(TokenType::kComma);
    if (is(TokenType::kRightBrace)) break;
    items.push_back(parse_expression());
    expect(TokenType::kColon);
    items.push_back(parse_expression());
  }
  expect(TokenType::kRightBrace);
  return make(Kind::kDict, line, std::move(items));
}

}  // namespace unspool::jinja
