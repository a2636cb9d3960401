#include <fmt/format.h>

#include <algorithm>

#include "jinja/parser.h"
#include "jinja/parser_level.h"

namespace unspool::jinja {
namespace {

StatementPtr make_statement(Statement::Kind kind, int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = line;
  return statement;
}

}  // namespace

bool Parser::skip_if(TokenType type) {
  if (!is(type)) return false;
  next();
  return true;
}

bool Parser::skip_if_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

const Token& Parser::expect(TokenType type) {
  if (is(type)) return next();
  if (is(TokenType::kEnd)) fail_here(fmt::format("unexpected end of template, expected '{}'.", describe(type)));
  fail_here(fmt::format("expected token '{}', got '{}'", describe(type), describe(current())));
}

void Parser::expect_name(std::string_view name) {
  if (skip_if_name(name)) return;
  if (is(TokenType::kEnd)) fail_here(fmt::format("unexpected end of template, expected '{}'.", name));
  fail_here(fmt::format("expected token '{}', got '{}'", name, describe(current())));
}

void Parser::fail_here(std::string message, int line) const {
  fail(TemplateError::Kind::kSyntax, std::move(message), line == 0 ? current().line : line);
}

// A tag that fits nowhere, or (without one) the end of the template inside a block.
void Parser::fail_tag(const std::string* unknown, int line) const {
  std::string message =
      unknown != nullptr ? fmt::format("Encountered unknown tag '{}'.", *unknown) : "Unexpected end of template.";
  if (!end_tags_.empty()) {
    std::string looking_for;
    bool is_expected = false;
    for (const std::string_view tag : end_tags_.back()) {
      looking_for += fmt::format("{}'{}'", looking_for.empty() ? "" : " or ", tag);
    }
    for (const auto& tags : end_tags_) {
      is_expected = is_expected || (unknown != nullptr && std::count(tags.begin(), tags.end(), *unknown) > 0);
    }
    message += is_expected
                   ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for "
                   : " Jinja was looking for the following tags: ";
    message += looking_for + ".";
  }
  if (!open_tags_.empty()) {
    message += fmt::format(" The innermost block that needs to be closed is '{}'.", open_tags_.back());
  }
  fail_here(std::move(message), line);
}

Body Parser::parse_template() {
  return parse_body({});
}

Body Parser::parse_body(EndTags end_tags) {
  if (end_tags.size() > 0) end_tags_.emplace_back(end_tags);
  Body body;
  while (!is(TokenType::kEnd)) {
    if (!is(TokenType::kBlockBegin)) {
      parse_data(body);
      continue;
    }
    next();
    const bool is_end =
        std::any_of(end_tags.begin(), end_tags.end(), [&](std::string_view tag) { return current().is_name(tag); });
    if (is_end) {
      end_tags_.pop_back();
      return body;
    }
    body.push_back(parse_statement());
    expect(TokenType::kBlockEnd);
  }
  if (end_tags.size() > 0) fail_tag(nullptr, current().line);
  return body;
}

// The body of a block tag, whose own end comes first.
Body Parser::parse_block_body(EndTags end_tags) {
  skip_if(TokenType::kColon);
  expect(TokenType::kBlockEnd);
  return parse_body(end_tags);
}

void Parser::parse_data(Body& body) {
  if (is(TokenType::kData)) {
    StatementPtr data = make_statement(Statement::Kind::kData, current().line);
    data->data = next().text;
    body.push_back(std::move(data));
    return;
  }
  StatementPtr output = make_statement(Statement::Kind::kOutput, expect(TokenType::kVariableBegin).line);
  output->expressions.push_back(parse_tuple({}));
  expect(TokenType::kVariableEnd);
  body.push_back(std::move(output));
}

StatementPtr Parser::parse_statement() {
  const ParserLevel level(*this);
  const Token& token = current();
  if (token.type != TokenType::kName) fail_here("tag name expected");
  const std::string& tag = token.text;
  open_tags_.push_back(tag);
  StatementPtr statement;
  if (tag == "for") {
    statement = parse_for();
  } else if (tag == "if") {
    statement = parse_if();
  } else if (tag == "set") {
    statement = parse_set();
  } else if (tag == "macro") {
    statement = parse_macro();
  } else if (tag == "call") {
    statement = parse_call_block();
  } else if (tag == "filter") {
    statement = parse_filter_block();
  } else if (tag == "with") {
    statement = parse_with();
  } else if (tag == "print") {
    statement = parse_print();
  } else if (tag == "block") {
    statement = parse_named_block();
  } else if (tag == "autoescape") {
    statement = parse_autoescape();
  } else if (tag == "generation") {
    statement = parse_generation();
  } else if (tag == "break" || tag == "continue") {
    next();
    statement = make_statement(tag == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue, token.line);
  } else if (tag == "extends" || tag == "include" || tag == "import" || tag == "from") {
    statement = parse_template_reference(tag);
  } else {
    open_tags_.pop_back();
    fail_tag(&tag, token.line);
  }
  open_tags_.pop_back();
  return statement;
}

StatementPtr Parser::parse_for() {
  StatementPtr node = make_statement(Statement::Kind::kFor, next().line);
  node->targets.push_back(parse_target(false, "in"));
  expect_name("in");
  node->expression = parse_tuple({.with_conditional = false, .end_name = "recursive"});
  if (skip_if_name("if")) node->filter = parse_expression();
  node->is_recursive = skip_if_name("recursive");
  node->body = parse_block_body({"endfor", "else"});
  if (next().text != "endfor") {
    node->otherwise = parse_block_body({"endfor"});
    next();
  }
  return node;
}

StatementPtr Parser::parse_if() {
  StatementPtr result = make_statement(Statement::Kind::kIf, next().line);
  Statement* node = result.get();
  for (;;) {
    node->expression = parse_tuple({.with_conditional = false});
    node->body = parse_block_body({"elif", "else", "endif"});
    const Token& token = next();
    if (token.is_name("elif")) {
      result->elifs.push_back(make_statement(Statement::Kind::kIf, current().line));
      node = result->elifs.back().get();
      continue;
    }
    if (token.is_name("else")) {
      result->otherwise = parse_block_body({"endif"});
      next();
    }
    return result;
  }
}

StatementPtr Parser::parse_set() {
  const int line = next().line;
  ExpressionPtr target = parse_target(true);
  const bool is_block = !skip_if(TokenType::kAssign);
  StatementPtr node = make_statement(is_block ? Statement::Kind::kSetBlock : Statement::Kind::kSet, line);
  node->targets.push_back(std::move(target));
  if (is_block) {
    node->expression = parse_filter(nullptr);
    node->body = parse_block_body({"endset"});
    next();
  } else {
    node->expression = parse_tuple({});
  }
  return node;
}

Signature Parser::parse_signature() {
  Signature signature;
  expect(TokenType::kLeftParen);
  while (!is(TokenType::kRightParen)) {
    if (!signature.parameters.empty()) expect(TokenType::kComma);
    ExpressionPtr parameter = parse_name_target();
    parameter->is_parameter = true;
    for (const ExpressionPtr& other : signature.parameters) {
      if (other->name == parameter->name) {
        fail_here(fmt::format("duplicate argument '{}' in function definition", parameter->name));
      }
    }
    if (skip_if(TokenType::kAssign)) {
      signature.defaults.push_back(parse_expression());
    } else if (!signature.defaults.empty()) {
      fail_here("non-default argument follows default argument");
    }
    signature.parameters.push_back(std::move(parameter));
  }
  expect(TokenType::kRightParen);
  return signature;
}

StatementPtr Parser::parse_macro() {
  StatementPtr node = make_statement(Statement::Kind::kMacro, next().line);
  node->name = parse_name_target()->name;
  node->signature = parse_signature();
  node->body = parse_block_body({"endmacro"});
  next();
  return node;
}

StatementPtr Parser::parse_call_block() {
  StatementPtr node = make_statement(Statement::Kind::kCallBlock, next().line);
  if (is(TokenType::kLeftParen)) node->signature = parse_signature();
  node->expression = parse_expression();
  if (node->expression->kind != Expression::Kind::kCall) fail_here("expected call", node->line);
  node->body = parse_block_body({"endcall"});
  next();
  return node;
}

StatementPtr Parser::parse_filter_block() {
  StatementPtr node = make_statement(Statement::Kind::kFilterBlock, next().line);
  node->expression = parse_filter(nullptr, true);
  node->body = parse_block_body({"endfilter"});
  next();
  return node;
}

StatementPtr Parser::parse_with() {
  StatementPtr node = make_statement(Statement::Kind::kWith, next().line);
  while (!is(TokenType::kBlockEnd)) {
    if (!node->targets.empty()) expect(TokenType::kComma);
    node->targets.push_back(parse_target(false));
    mark_parameter(*node->targets.back());
    expect(TokenType::kAssign);
    node->expressions.push_back(parse_expression());
  }
  node->body = parse_block_body({"endwith"});
  next();
  return node;
}

StatementPtr Parser::parse_print() {
  StatementPtr node = make_statement(Statement::Kind::kOutput, next().line);
  while (!is(TokenType::kBlockEnd)) {
    if (!node->expressions.empty()) expect(TokenType::kComma);
    node->expressions.push_back(parse_expression());
  }
  return node;
}

StatementPtr Parser::parse_named_block() {
  StatementPtr node = make_statement(Statement::Kind::kBlock, next().line);
  node->name = expect(TokenType::kName).text;
  node->is_scoped = skip_if_name("scoped");
  node->is_required = skip_if_name("required");
  if (is(TokenType::kSubtract)) {
    fail_here(
        "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore "
        "instead.");
  }
  node->body = parse_block_body({"endblock"});
  next();
  skip_if_name(node->name);
  return node;
}

StatementPtr Parser::parse_autoescape() {
  StatementPtr node = make_statement(Statement::Kind::kAutoescape, next().line);
  node->expressions.push_back(parse_expression());
  node->body = parse_block_body({"endautoescape"});
  next();
  return node;
}

// transformers' marks around what an assistant wrote: a call block whose caller is the body.
StatementPtr Parser::parse_generation() {
  StatementPtr node = make_statement(Statement::Kind::kGeneration, next().line);
  node->body = parse_block_body({"endgeneration"});
  next();
  return node;
}

// Other templates: the reference has no loader for them either, and fails when it renders.
StatementPtr Parser::parse_template_reference(const std::string& tag) {
  StatementPtr node = make_statement(Statement::Kind::kLoadTemplate, next().line);
  node->name = tag;
  node->expression = parse_expression();
  while (!is(TokenType::kBlockEnd) && !is(TokenType::kEnd)) next();
  return node;
}

ExpressionPtr Parser::parse_name_target() {
  const Token& token = expect(TokenType::kName);
  ExpressionPtr target = make(Expression::Kind::kName, token.line);
  target->name = token.text;
  mark_stored(*target);
  return target;
}

ExpressionPtr Parser::parse_target(bool with_namespace, std::string_view end_name) {
  ExpressionPtr target = parse_tuple({.simplified = true, .with_namespace = with_namespace, .end_name = end_name});
  mark_stored(*target);
  return target;
}

void Parser::mark_stored(Expression& target) const {
  using Kind = Expression::Kind;
  target.is_store = true;
  if (target.kind == Kind::kTuple) {
    for (const ExpressionPtr& item : target.operands) mark_stored(*item);
    return;
  }
  if (target.kind == Kind::kNamespaceTarget) return;
  if (target.kind != Kind::kName) {
    const std::string_view what = target.kind == Kind::kConstant ? "const"
                                  : target.kind == Kind::kList   ? "list"
                                  : target.kind == Kind::kDict   ? "dict"
                                                                 : "expression";
    fail_here(fmt::format("can't assign to '{}'", what), target.line);
  }
  static constexpr std::string_view kReserved[] = {"true", "false", "none", "True", "False", "None"};
  if (std::count(std::begin(kReserved), std::end(kReserved), target.name) > 0) {
    fail_here("can't assign to 'name'", target.line);
  }
}

void Parser::mark_parameter(Expression& target) {
  target.is_parameter = true;
  for (const ExpressionPtr& item : target.operands) mark_parameter(*item);
}

SyntaxTree parse(std::string_view source) {
  SyntaxTree tree;
  tree.body = Parser(source).parse_template();
  return tree;
}

}  // namespace unspool::jinja
