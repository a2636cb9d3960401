#include "grammar/xgrammar_api.h"

#include <dlfcn.h>

namespace unspool {

Result<std::shared_ptr<const XgrammarApi>> XgrammarApi::load(const std::filesystem::path& directory) {
  auto api = std::make_shared<XgrammarApi>();
  UNSPOOL_ASSIGN(api->ffi, tvm_ffi::Library::load(directory / "tvm_ffi" / "lib" / "libtvm_ffi.so"));
  const auto library = directory / "xgrammar" / "libxgrammar_bindings.so";
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return not_found(dlerror());

  struct Entry {
    tvm_ffi::Function& function;
    const char* type;
    const char* name;
  };
  const Entry entries[] = {
      {api->make_vocabulary, "TokenizerInfo", "__ffi_init__"},
      {api->make_compiler, "GrammarCompiler", "__ffi_init__"},
      {api->compile_json_schema, "GrammarCompiler", "compile_json_schema"},
      {api->compile_regex, "GrammarCompiler", "compile_regex"},
      {api->compile_ebnf, "GrammarCompiler", "compile_grammar_from_strings"},
      {api->compile_lark, "GrammarCompiler", "compile_lark"},
      {api->compile_structural_tag, "GrammarCompiler", "compile_structural_tag"},
      {api->size_bytes, "CompiledGrammar", "memory_size_bytes"},
      {api->make_matcher, "GrammarMatcher", "__ffi_init__"},
      {api->accept_token, "GrammarMatcher", "accept_token"},
      {api->fill_mask, "GrammarMatcher", "fill_next_token_bitmask"},
      {api->is_terminated, "GrammarMatcher", "is_terminated"},
  };
  for (const Entry& entry : entries) {
    UNSPOOL_ASSIGN(entry.function, api->ffi->method(std::string("xgrammar.tvm_ffi_binding.") + entry.type, entry.name));
  }
  return std::shared_ptr<const XgrammarApi>(std::move(api));
}

}  // namespace unspool
