// What follows an operand: attributes, subscripts, calls, filters and tests.
#include <fmt/format.h>

#include "jinja/parser.h"
#include "jinja/parser_level.h"

namespace unspool::jinja {

using Kind = Expression::Kind;

ExpressionPtr Parser::parse_postfix(ExpressionPtr operand) {
  for (;;) {
    if (is(TokenType::kDot) || is(TokenType::kLeftBracket)) {
      operand = parse_subscript(std::move(operand));
    } else if (is(TokenType::kLeftParen)) {
      operand = parse_call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPtr Parser::parse_filters_and_tests(ExpressionPtr operand) {
  for (;;) {
    if (is(TokenType::kPipe)) {
      operand = parse_filter(std::move(operand));
    } else if (current().is_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (is(TokenType::kLeftParen)) {
      operand = parse_call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr operand) {
  const Token& token = next();
  if (token.type == TokenType::kDot) {
    const Token& attribute = next();
    if (attribute.type == TokenType::kName) {
      ExpressionPtr node = make_with(Kind::kAttribute, token.line, std::move(operand));
      node->name = attribute.text;
      return node;
    }
    if (attribute.type != TokenType::kInteger) fail_here("expected name or number", attribute.line);
    ExpressionPtr key = make(Kind::kConstant, attribute.line);
    key->constant = attribute.number;
    return make_with(Kind::kItem, token.line, std::move(operand), std::move(key));
  }
  const ParserLevel level(*this);
  std::vector<ExpressionPtr> keys;
  bool has_slice = false;
  while (!is(TokenType::kRightBracket)) {
    if (!keys.empty()) expect(TokenType::kComma);
    keys.push_back(parse_subscribed(keys.empty() ? std::move(operand) : nullptr, token.line));
    has_slice = has_slice || keys.back()->kind == Kind::kSlice;
  }
  expect(TokenType::kRightBracket);
  if (keys.size() == 1) return std::move(keys[0]);
  if (has_slice) fail_here("a slice among several subscripts is not supported", token.line);
  if (keys.empty()) return make_with(Kind::kItem, token.line, std::move(operand), make(Kind::kTuple, token.line));
  // x[a, b]: the key is a tuple. The first key holds the operand already.
  ExpressionPtr node = std::move(keys[0]);
  keys[0] = std::move(node->operands[1]);
  node->operands[1] = make(Kind::kTuple, token.line, std::move(keys));
  check_nesting(*node, *node->operands[1]);
  return node;
}

// One subscript: object[key] or object[start:stop:step]. Without an object, the key alone.
ExpressionPtr Parser::parse_subscribed(ExpressionPtr object, int line) {
  ExpressionPtr start;
  if (!is(TokenType::kColon)) {
    start = parse_expression();
    if (!is(TokenType::kColon)) {
      if (!object) return start;
      return make_with(Kind::kItem, line, std::move(object), std::move(start));
    }
  }
  next();
  const auto at_end = [&] { return is(TokenType::kRightBracket) || is(TokenType::kComma); };
  ExpressionPtr stop;
  ExpressionPtr step;
  if (!is(TokenType::kColon) && !at_end()) stop = parse_expression();
  if (skip_if(TokenType::kColon) && !at_end()) step = parse_expression();
  return make_with(Kind::kSlice, line, std::move(object), std::move(start), std::move(stop), std::move(step));
}

CallArguments Parser::parse_arguments() {
  const ParserLevel level(*this);
  const int line = expect(TokenType::kLeftParen).line;
  CallArguments out;
  const auto ensure = [&](bool holds) {
    if (!holds) fail_here("invalid syntax for function call expression", line);
  };
  bool require_comma = false;
  while (!is(TokenType::kRightParen)) {
    if (require_comma) {
      expect(TokenType::kComma);
      if (is(TokenType::kRightParen)) break;
    }
    if (skip_if(TokenType::kMultiply)) {
      ensure(!out.star && !out.star_star);
      out.star = parse_expression();
    } else if (skip_if(TokenType::kPower)) {
      ensure(!out.star_star);
      out.star_star = parse_expression();
    } else if (is(TokenType::kName) && ahead().type == TokenType::kAssign) {
      ensure(!out.star_star);
      std::string name = next().text;
      next();
      for (const Keyword& keyword : out.keywords) {
        if (keyword.name == name) fail_here(fmt::format("keyword argument repeated: {}", name));
      }
      out.keywords.push_back({std::move(name), parse_expression()});
    } else {
      ensure(!out.star && !out.star_star && out.keywords.empty());
      out.positional.push_back(parse_expression());
    }
    require_comma = true;
  }
  expect(TokenType::kRightParen);
  return out;
}

ExpressionPtr Parser::parse_call(ExpressionPtr callee) {
  const int line = current().line;
  ExpressionPtr node = make_with(Kind::kCall, line, std::move(callee));
  add_arguments(*node, parse_arguments());
  return node;
}

std::string Parser::parse_dotted_name() {
  std::string name = expect(TokenType::kName).text;
  while (skip_if(TokenType::kDot)) name += "." + expect(TokenType::kName).text;
  return name;
}

ExpressionPtr Parser::parse_filter(ExpressionPtr operand, bool start_inline) {
  while (is(TokenType::kPipe) || start_inline) {
    if (!start_inline) next();
    start_inline = false;
    const int line = current().line;
    std::string name = parse_dotted_name();
    operand = make_with(Kind::kFilter, line, std::move(operand));
    operand->name = std::move(name);
    if (is(TokenType::kLeftParen)) add_arguments(*operand, parse_arguments());
  }
  return operand;
}

ExpressionPtr Parser::parse_test(ExpressionPtr operand) {
  const int line = next().line;
  const bool is_negated = skip_if_name("not");
  ExpressionPtr node = make_with(Kind::kTest, line, std::move(operand));
  node->name = parse_dotted_name();
  const Token& token = current();
  if (token.type == TokenType::kLeftParen) {
    add_arguments(*node, parse_arguments());
  } else if ((token.type == TokenType::kName || token.type == TokenType::kString || token.type == TokenType::kInteger ||
              token.type == TokenType::kFloat || token.type == TokenType::kLeftBracket ||
              token.type == TokenType::kLeftBrace) &&
             !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
    if (token.is_name("is")) fail_here("You cannot chain multiple tests with is");
    const ParserLevel level(*this);
    CallArguments arguments;
    arguments.positional.push_back(parse_postfix(parse_primary()));
    add_arguments(*node, std::move(arguments));
  }
  return is_negated ? make_with(Kind::kNot, line, std::move(node)) : std::move(node);
}

}  // namespace unspool::jinja
