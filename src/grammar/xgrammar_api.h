// The functions of xgrammar's library that we call, looked up once.
#pragma once

#include <filesystem>
#include <memory>

#include "grammar/tvm_ffi.h"

namespace unspool {

struct XgrammarApi {
  std::unique_ptr<tvm_ffi::Library> ffi;

  // Arguments as xgrammar's own Python package passes them; of methods, the object first.
  tvm_ffi::Function make_vocabulary = nullptr;  // (pieces, kind, vocab size, stop token ids, adds a space in front)
  tvm_ffi::Function make_compiler = nullptr;    // (vocabulary, threads, caches, cache limit in bytes, lazily)
  // (compiler, schema, any whitespace, indent, separators, strict, most whitespace, any order)
  tvm_ffi::Function compile_json_schema = nullptr;
  tvm_ffi::Function compile_regex = nullptr;           // (compiler, pattern)
  tvm_ffi::Function compile_ebnf = nullptr;            // (compiler, grammar, root rule)
  tvm_ffi::Function compile_lark = nullptr;            // (compiler, grammar, names and values of other grammars)
  tvm_ffi::Function compile_structural_tag = nullptr;  // (compiler, tag)
  tvm_ffi::Function size_bytes = nullptr;              // (compiled grammar)
  tvm_ffi::Function make_matcher =
      nullptr;  // (compiled grammar, stop token ids, ends without, most rollback, temperature)
  tvm_ffi::Function accept_token = nullptr;   // (matcher, token id, prints)
  tvm_ffi::Function fill_mask = nullptr;      // (matcher, mask, row, prints)
  tvm_ffi::Function is_terminated = nullptr;  // (matcher)

  static Result<std::shared_ptr<const XgrammarApi>> load(const std::filesystem::path& directory);
};

}  // namespace unspool
