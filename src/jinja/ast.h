// The syntax tree of a template: jinja2's nodes, with variables resolved to slots by resolver.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace unspool::jinja {

enum class BinaryOperator : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

// Where a variable lives: in slot `slot` of the frame `up` functions further out. Macros, blocks and recursive loops
// are functions; loops and `with` only take more slots of the function they are in, as jinja2's generated Python does.
struct Slot {
  int up = 0;
  int slot = -1;
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Keyword {
  std::string name;
  ExpressionPtr value;
};
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<Keyword> keywords;
  ExpressionPtr star;       // *args
  ExpressionPtr star_star;  // **kwargs
};

struct Expression {
  enum class Kind : uint8_t {
    kConstant,
    kName,
    kNamespaceTarget,
    kTuple,
    kList,
    kDict,
    kBinary,
    kAnd,
    kOr,
    kNot,
    kNegative,
    kPositive,
    kConcat,
    kCompare,
    kConditional,
    kAttribute,
    kItem,
    kSlice,
    kCall,
    kFilter,
    kTest,
  };
  Kind kind = Kind::kConstant;
  int line = 0;
  Value constant;             // kConstant
  std::string name;           // kName, kNamespaceTarget, kAttribute, kFilter, kTest
  std::string attribute;      // kNamespaceTarget
  bool is_store = false;      // kName as a target, and tuples of such
  bool is_parameter = false;  // kName that is bound by its scope: loop targets, macro arguments
  Slot slot;                  // kName, kNamespaceTarget
  BinaryOperator op = BinaryOperator::kAdd;
  // kTuple, kList, kConcat: the items. kDict: key, value, key, value. kBinary, kAnd, kOr: left, right. kConditional:
  // test, then, else (may be null). kItem: object, key. kSlice: object, start, stop, step (each of these may be null).
  // kFilter, kTest, kCall, kAttribute, kNot, kNegative, kPositive: the operand (null for the filter of a block).
  // kCompare: all operands.
  std::vector<ExpressionPtr> operands;
  std::vector<Comparison> comparisons;  // kCompare: between operands i and i + 1
  CallArguments arguments;              // kCall, kFilter, kTest
  int nesting = 1;                      // levels of expressions, this one included
};

// What a scope does with a variable when it is entered: jinja2's load instructions.
struct ScopeLoad {
  enum class Kind : uint8_t { kResolve, kAlias, kUndefined };
  Kind kind;
  int slot;
  Slot alias;        // kAlias
  std::string name;  // kResolve
};

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

struct Scope {
  std::vector<ScopeLoad> loads;
};

// The parameters of a macro or a call block.
struct Signature {
  std::vector<ExpressionPtr> parameters;  // kName
  std::vector<ExpressionPtr> defaults;    // of the last parameters
  int caller_slot = -1;                   // slots of the special variables; -1 where the body does not use them
  int kwargs_slot = -1;
  int varargs_slot = -1;
  bool uses_caller = false;
  int num_slots = 0;
};

struct Statement {
  enum class Kind : uint8_t {
    kData,
    kOutput,
    kIf,
    kFor,
    kSet,
    kSetBlock,
    kMacro,
    kCallBlock,
    kFilterBlock,
    kWith,
    kBlock,
    kAutoescape,
    kBreak,
    kContinue,
    kGeneration,
    kLoadTemplate,
  };
  Kind kind = Kind::kData;
  int line = 0;
  std::string data;                        // kData
  std::vector<ExpressionPtr> expressions;  // kOutput: what is printed. kWith: the values. kAutoescape: the one option
  std::vector<ExpressionPtr> targets;      // kFor, kSet, kSetBlock: one. kWith: as many as expressions
  // kFor: what is iterated. kSet: the value. kSetBlock, kFilterBlock: the filter (may be null for kSetBlock).
  // kCallBlock: the call. kIf: the test.
  ExpressionPtr expression;
  ExpressionPtr filter;  // kFor: the `if` after the iterable, or null
  Body body;
  Body otherwise;                                      // kIf, kFor
  std::vector<StatementPtr> elifs;                     // kIf: statements of kind kIf without elifs of their own
  Signature signature;                                 // kMacro, kCallBlock
  std::string name;                                    // kMacro, kBlock; kLoadTemplate: the tag
  bool is_recursive = false;                           // kFor
  bool is_scoped = false;                              // kBlock
  bool is_required = false;                            // kBlock
  int loop_slot = -1;                                  // kFor: the variable `loop`, -1 where it is not used
  int num_slots = 0;                                   // kBlock, recursive kFor: slots of the function
  Slot slot;                                           // kMacro: its name
  std::vector<std::pair<std::string, Slot>> exported;  // variables that become visible to blocks when this is done
  std::vector<std::pair<std::string, Slot>> visible;   // kBlock that is scoped: what it sees
  int self_slot = -1;                                  // kBlock
  int super_slot = -1;                                 // kBlock
  Scope scope;                                         // of the body
  Scope else_scope;                                    // kFor
  Scope filter_scope;               // kFor: of the `if` after the iterable, which is a function of its own
  std::vector<int> filter_targets;  // kFor: the slots of the targets there, in order
  int num_filter_slots = 0;
};

struct SyntaxTree {
  Body body;
  int num_slots = 0;
  Scope scope;
  int self_slot = -1;
  std::vector<std::pair<std::string, const Statement*>> blocks;
  std::vector<std::string> undeclared;  // names that the template expects to be given
};

}  // namespace unspool::jinja
