// One vocabulary's grammars, by xgrammar.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "grammar/grammar.h"
#include "grammar/xgrammar.h"
#include "grammar/xgrammar_api.h"

namespace unspool {

class XgrammarBackend : public GrammarBackend {
 public:
  XgrammarBackend(std::shared_ptr<const XgrammarApi> api, GrammarVocabulary vocabulary);
  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) override;

 private:
  // Made when first asked for: it takes a fraction of a second, and some megabytes.
  struct Compiler {
    std::once_flag once;
    Status status;
    tvm_ffi::Value compiler;
  };
  Status make(Compiler& out, bool with_special_tokens) const;
  Result<tvm_ffi::Value> compile(const tvm_ffi::Value& compiler, const GrammarSpec& spec) const;

  std::shared_ptr<const XgrammarApi> api_;
  GrammarVocabulary vocabulary_;
  // Special tokens are no text: decoding leaves them out, so that an output with one within would not be what its
  // grammar says. Only grammars that name them have them.
  Compiler text_;
  Compiler with_special_tokens_;
};

}  // namespace unspool
