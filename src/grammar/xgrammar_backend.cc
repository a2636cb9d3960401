#include "grammar/xgrammar_backend.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "grammar/grammar_errors.h"

namespace unspool {
namespace {

using tvm_ffi::Any;
using tvm_ffi::Value;

constexpr int kRawPieces = 0;  // the pieces are the bytes that tokens stand for
constexpr int kUnlimited = -1;

// The first byte of U+D000 to U+DFFF, of which those from U+D800 on, with a second one of 0xA0 to 0xBF, are no
// characters.
constexpr char kBeforeSurrogates = '\xed';

bool is_surrogate_second(char c) {
  return (static_cast<unsigned char>(c) & 0xe0) == 0xa0;
}

bool has_surrogate(std::string_view bytes) {
  for (size_t i = 1; i < bytes.size(); ++i)
    if (bytes[i - 1] == kBeforeSurrogates && is_surrogate_second(bytes[i])) return true;
  return false;
}

class Matcher : public GrammarMatcher {
 public:
  Matcher(std::shared_ptr<const XgrammarApi> api, std::shared_ptr<const SurrogateHalves> surrogates, Value matcher)
      : api_(std::move(api)), surrogates_(std::move(surrogates)), matcher_(std::move(matcher)) {}

  bool accept(int32_t token_id) override {
    const std::string_view bytes = surrogates_->tokenizer->id_to_bytes(token_id);
    if (before_surrogates_ && !bytes.empty() && is_surrogate_second(bytes[0])) return false;
    const auto accepted =
        api_->ffi->call(api_->accept_token, {matcher_.any(), tvm_ffi::integer(token_id), tvm_ffi::boolean(false)});
    if (!accepted.ok() || !accepted->truth()) return false;
    if (!bytes.empty()) before_surrogates_ = bytes.back() == kBeforeSurrogates;
    return true;
  }

  bool fill_mask(std::span<uint32_t> mask) override {
    int64_t size = static_cast<int64_t>(mask.size());
    int64_t stride = 1;
    tvm_ffi::Tensor tensor;
    tensor.data = mask.data();
    tensor.shape = &size;
    tensor.strides = &stride;
    const auto filled = api_->ffi->call(
        api_->fill_mask, {matcher_.any(), tvm_ffi::tensor(tensor), tvm_ffi::integer(0), tvm_ffi::boolean(false)});
    if (!filled.ok()) return false;
    if (before_surrogates_)
      for (size_t i = 0; i < mask.size(); ++i) mask[i] &= ~surrogates_->seconds[i];
    return true;
  }

  bool terminated() const override {
    const auto terminated = api_->ffi->call(api_->is_terminated, {matcher_.any()});
    return terminated.ok() && terminated->truth();
  }

 private:
  std::shared_ptr<const XgrammarApi> api_;
  std::shared_ptr<const SurrogateHalves> surrogates_;
  Value matcher_;
  bool before_surrogates_ = false;
};

class Grammar : public CompiledGrammar {
 public:
  Grammar(std::shared_ptr<const XgrammarApi> api, std::shared_ptr<const SurrogateHalves> surrogates, Value grammar)
      : api_(std::move(api)), surrogates_(std::move(surrogates)), grammar_(std::move(grammar)) {
    const auto size = api_->ffi->call(api_->size_bytes, {grammar_.any()});
    size_bytes_ = size.ok() ? static_cast<size_t>(size->integer()) : 0;
  }

  size_t size_bytes() const override { return size_bytes_; }

  Result<std::unique_ptr<GrammarMatcher>> matcher(std::span<const int32_t> stop_token_ids) const override {
    std::vector<Any> ids;
    for (const int32_t id : stop_token_ids) ids.push_back(tvm_ffi::integer(id));
    UNSPOOL_ASSIGN(const Value stops, api_->ffi->array(ids));
    UNSPOOL_ASSIGN(
        Value matcher,
        api_->ffi->call(api_->make_matcher, {grammar_.any(), ids.empty() ? tvm_ffi::none() : stops.any(),
                                             tvm_ffi::boolean(false), tvm_ffi::integer(kUnlimited), tvm_ffi::none()}));
    return std::unique_ptr<GrammarMatcher>(std::make_unique<Matcher>(api_, surrogates_, std::move(matcher)));
  }

 private:
  std::shared_ptr<const XgrammarApi> api_;
  std::shared_ptr<const SurrogateHalves> surrogates_;
  Value grammar_;
  size_t size_bytes_ = 0;
};

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r';
}

}  // namespace

XgrammarBackend::XgrammarBackend(std::shared_ptr<const XgrammarApi> api, GrammarVocabulary vocabulary)
    : api_(std::move(api)), vocabulary_(std::move(vocabulary)) {
  auto surrogates = std::make_shared<SurrogateHalves>();
  surrogates->tokenizer = vocabulary_.tokenizer;
  surrogates->seconds.resize((static_cast<size_t>(vocabulary_.vocab_size) + 31) / 32);
  for (int32_t id = 0; id < vocabulary_.vocab_size; ++id) {
    const std::string_view bytes = vocabulary_.tokenizer->id_to_bytes(id);
    if (!bytes.empty() && is_surrogate_second(bytes[0])) surrogates->seconds[id / 32] |= uint32_t{1} << id % 32;
  }
  surrogates_ = std::move(surrogates);
}

// Empty: never a part of an output.
std::string_view XgrammarBackend::piece(int32_t id, Tokens tokens) const {
  const Tokenizer& tokenizer = *vocabulary_.tokenizer;
  const bool takes_special = tokens == Tokens::kAll || tokens == Tokens::kMarked;
  const bool takes_control = tokens == Tokens::kAll || tokens == Tokens::kText;
  if (!takes_special && tokenizer.is_special(id)) return {};
  const std::string_view bytes = tokenizer.id_to_bytes(id);
  if (has_surrogate(bytes)) return {};
  if (!takes_control && std::any_of(bytes.begin(), bytes.end(), is_control)) return {};
  return bytes;
}

Status XgrammarBackend::make(Compiler& out) const {
  const tvm_ffi::Library& ffi = *api_->ffi;
  std::vector<Value> pieces;
  std::vector<Any> views;
  for (int32_t id = 0; id < vocabulary_.vocab_size; ++id) {
    UNSPOOL_ASSIGN(Value bytes, ffi.bytes(piece(id, out.tokens)));
    views.push_back(bytes.any());
    pieces.push_back(std::move(bytes));
  }
  UNSPOOL_ASSIGN(const Value array, ffi.array(views));
  const Any eos = tvm_ffi::integer(vocabulary_.eos_token_id.value_or(-1));
  UNSPOOL_ASSIGN(const Value stops, ffi.array(std::span(&eos, vocabulary_.eos_token_id ? 1 : 0)));
  UNSPOOL_ASSIGN(const Value vocabulary,
                 ffi.call(api_->make_vocabulary,
                          {array.any(), tvm_ffi::integer(kRawPieces), tvm_ffi::integer(vocabulary_.vocab_size),
                           vocabulary_.eos_token_id ? stops.any() : tvm_ffi::none(), tvm_ffi::boolean(false)}));
  // One thread, the caller's, so that its clock tells what a grammar costs; no cache, for GrammarCompiler has one.
  UNSPOOL_ASSIGN(out.compiler,
                 ffi.call(api_->make_compiler, {vocabulary.any(), tvm_ffi::integer(1), tvm_ffi::boolean(false),
                                                tvm_ffi::integer(kUnlimited), tvm_ffi::boolean(false)}));
  return {};
}

XgrammarBackend::Compiler& XgrammarBackend::compiler_for(const GrammarSpec& spec) {
  switch (spec.kind) {
    case GrammarKind::kJsonSchema:
      return json_;
    case GrammarKind::kRegex:
    case GrammarKind::kEbnf:
      return text_;
    case GrammarKind::kStructuralTag:
      // Calls of tools are written between tags. A raw control character in an argument would be no JSON.
      for (const char* bound : {"\"minLength\"", "\"maxLength\"", "\"pattern\""}) {
        if (spec.text.find(bound) != std::string::npos) return marked_;
      }
      break;
    case GrammarKind::kLark:
      break;
  }
  return all_;
}

Result<std::shared_ptr<const CompiledGrammar>> XgrammarBackend::compile(const GrammarSpec& spec) {
  Compiler& compiler = compiler_for(spec);
  std::call_once(compiler.once, [&] { compiler.status = make(compiler); });
  if (!compiler.status.ok()) return internal_error("xgrammar: " + compiler.status.error().message);
  auto grammar = compile(compiler.compiler, spec);
  if (!grammar.ok()) return grammar_error(spec.kind, grammar.error().message);
  return std::shared_ptr<const CompiledGrammar>(std::make_shared<Grammar>(api_, surrogates_, std::move(*grammar)));
}

Result<Value> XgrammarBackend::compile(const Value& compiler, const GrammarSpec& spec) const {
  const tvm_ffi::Library& ffi = *api_->ffi;
  UNSPOOL_ASSIGN(const Value text, ffi.string(spec.text));
  switch (spec.kind) {
    case GrammarKind::kJsonSchema: {
      UNSPOOL_ASSIGN(const Value comma, ffi.string(","));
      UNSPOOL_ASSIGN(const Value colon, ffi.string(":"));
      UNSPOOL_ASSIGN(const Value separators, ffi.array(std::array{comma.any(), colon.any()}));
      return ffi.call(api_->compile_json_schema,
                      {compiler.any(), text.any(), tvm_ffi::boolean(spec.any_whitespace), tvm_ffi::none(),
                       spec.any_whitespace ? tvm_ffi::none() : separators.any(), tvm_ffi::boolean(true),
                       tvm_ffi::none(), tvm_ffi::boolean(false)});
    }
    case GrammarKind::kRegex:
      return ffi.call(api_->compile_regex, {compiler.any(), text.any()});
    case GrammarKind::kEbnf: {
      UNSPOOL_ASSIGN(const Value root, ffi.string("root"));
      return ffi.call(api_->compile_ebnf, {compiler.any(), text.any(), root.any()});
    }
    case GrammarKind::kLark: {
      UNSPOOL_ASSIGN(const Value none, ffi.array({}));
      return ffi.call(api_->compile_lark, {compiler.any(), text.any(), none.any(), none.any()});
    }
    case GrammarKind::kStructuralTag:
      break;
  }
  return ffi.call(api_->compile_structural_tag, {compiler.any(), text.any()});
}

}  // namespace unspool
