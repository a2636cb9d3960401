// One vocabulary's grammars, by xgrammar.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/xgrammar.h"
#include "grammar/xgrammar_api.h"

namespace unspool {

// Where tokens meet to the halves of a surrogate pair, which xgrammar takes for a character: JSON's strings of bounded
// length, and any class of a regex that leaves something out. As text they would be three U+FFFD.
struct SurrogateHalves {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<uint32_t> seconds;  // a bit a token: those that make a surrogate after a byte 0xED
};

class XgrammarBackend : public GrammarBackend {
 public:
  XgrammarBackend(std::shared_ptr<const XgrammarApi> api, GrammarVocabulary vocabulary);
  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) override;

 private:
  // Which tokens a grammar may use.
  enum class Tokens {
    kText,    // no special ones: decoding leaves them out, so an output with one within would not be what its grammar
              // says
    kJson,    // nor any with a control character but the ends of lines: xgrammar takes them raw in strings of bounded
              // length
    kMarked,  // special ones as well, but none with a control character: for tags with such JSON between them
    kAll,     // for grammars that name special tokens
  };
  // Made when first asked for: it takes a fraction of a second, and some megabytes.
  struct Compiler {
    explicit Compiler(Tokens which) : tokens(which) {}
    const Tokens tokens;
    std::once_flag once;
    Status status;
    tvm_ffi::Value compiler;
  };
  Status make(Compiler& out) const;
  std::string_view piece(int32_t id, Tokens tokens) const;
  Compiler& compiler_for(const GrammarSpec& spec);
  Result<tvm_ffi::Value> compile(const tvm_ffi::Value& compiler, const GrammarSpec& spec) const;

  std::shared_ptr<const XgrammarApi> api_;
  GrammarVocabulary vocabulary_;
  std::shared_ptr<const SurrogateHalves> surrogates_;
  Compiler text_{Tokens::kText};
  Compiler json_{Tokens::kJson};
  Compiler marked_{Tokens::kMarked};
  Compiler all_{Tokens::kAll};
};

}  // namespace unspool
