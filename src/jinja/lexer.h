// A template's text as tokens, by jinja2's rules under trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace unspool::jinja {

enum class TokenType : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kEnd,
  kAdd,
  kSubtract,
  kDivide,
  kFloorDivide,
  kMultiply,
  kModulo,
  kPower,
  kTilde,
  kLeftBracket,
  kRightBracket,
  kLeftParen,
  kRightParen,
  kLeftBrace,
  kRightBrace,
  kEqual,
  kNotEqual,
  kGreater,
  kGreaterEqual,
  kLess,
  kLessEqual,
  kAssign,
  kDot,
  kColon,
  kPipe,
  kComma,
  kSemicolon,
};

struct Token {
  TokenType type;
  int line;
  std::string text;  // data, a name, or a string with its escapes resolved
  Value number;      // kInteger, kFloat

  bool is_name(std::string_view name) const { return type == TokenType::kName && text == name; }
};

// How messages name a token, or a type of tokens.
std::string describe(const Token& token);
std::string_view describe(TokenType type);

// The last token is kEnd. Throws a Fault of kind kSyntax.
std::vector<Token> tokenize(std::string_view source);

}  // namespace unspool::jinja
