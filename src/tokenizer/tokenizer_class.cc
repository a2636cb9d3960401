#include "tokenizer/tokenizer_class.h"

#include <algorithm>
#include <optional>

namespace unspool {
namespace {

constexpr std::string_view kLlama = "LlamaTokenizer";
constexpr std::string_view kCodeLlama = "CodeLlamaTokenizer";
constexpr std::string_view kGemma = "GemmaTokenizer";
constexpr std::string_view kGpt2 = "GPT2Tokenizer";
constexpr std::string_view kQwen2 = "Qwen2Tokenizer";
constexpr std::string_view kFile;  // the file as it is

// What transformers registers for a type of model, out of its TOKENIZER_MAPPING_NAMES; types that are not listed
// register nothing. Where `declared_is_wrong`, what the model's files declare is known not to be so.
struct ModelRule {
  std::string_view model_type;
  std::string_view registered;
  bool declared_is_wrong = false;
  bool is_mistral = false;
};
constexpr ModelRule kModelRules[] = {
    {"gemma", kGemma},
    {"gemma2", kGemma},
    {"gemma3", kGemma},
    {"gemma3_text", kGemma},
    {"gpt2", kGpt2},
    {"granite", kFile},
    {"internlm2", kFile, true},
    {"internlm3", kFile, true},
    {"minimax_m2", kFile, true},
    {"ministral", kFile, false, true},
    {"ministral3", kFile, false, true},
    {"mistral", kFile, false, true},
    {"mistral3", kFile, false, true},
    {"mixtral", kFile, false, true},
    {"nemotron", kFile, true},
    {"olmo2", kFile},
    {"olmo3", kFile},
    {"phi", kGpt2},
    {"phi3", kFile, true},
    {"phimoe", kFile, true},
    {"qwen2", kQwen2, true},
    {"qwen2_moe", kQwen2},
    {"qwen3", kQwen2},
    {"qwen3_moe", kQwen2},
    {"qwen3_next", kQwen2},
    {"stablelm", kFile},
    {"starcoder2", kGpt2},
};

const ModelRule* find_rule(std::string_view model_type) {
  const auto rule = std::find_if(std::begin(kModelRules), std::end(kModelRules),
                                 [&](const ModelRule& candidate) { return candidate.model_type == model_type; });
  return rule == std::end(kModelRules) ? nullptr : rule;
}

constexpr const char* kSpaces = R"({"type":"Replace","pattern":{"String":"▁"},"content":" "})";
constexpr const char* kSentencePieceOptions =
    R"({"unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,"ignore_merges":false})";
constexpr const char* kByteLevelOptions =
    R"({"unk_token":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false})";
constexpr const char* kByteLevelDecoder = R"({"type":"ByteLevel"})";

std::string bytes_decoder(bool strips_space) {
  return R"({"type":"Sequence","decoders":[)" + std::string(kSpaces) + R"(,{"type":"ByteFallback"},{"type":"Fuse"})" +
         (strips_space ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})" : "") + "]}";
}

std::string metaspace(const std::string& prepend_scheme) {
  return R"({"type":"Metaspace","replacement":"▁","prepend_scheme":")" + prepend_scheme + R"(","split":false})";
}

ReplacedParts llama_parts(const JsonValue& config) {
  const bool prefix = config["add_prefix_space"].as_bool().value_or(true);
  // Legacy behaviour is to put a space behind every added token.
  const bool legacy = config["legacy"].as_bool().value_or(false);
  ReplacedParts parts;
  parts.normalizer = "null";
  parts.pre_tokenizer = metaspace(!prefix ? "never" : legacy ? "always" : "first");
  parts.decoder = bytes_decoder(prefix);
  parts.model_options = R"({"unk_token":null,"fuse_unk":true,"byte_fallback":true,"ignore_merges":false})";
  return parts;
}

ReplacedParts code_llama_parts(const JsonValue& config) {
  ReplacedParts parts = llama_parts(config);
  const bool prefix = config["add_prefix_space"].as_bool().value_or(true);
  parts.pre_tokenizer = metaspace(prefix ? "first" : "never");
  parts.decoder = bytes_decoder(true);
  parts.model_options = kSentencePieceOptions;
  return parts;
}

ReplacedParts gemma_parts() {
  ReplacedParts parts;
  parts.normalizer = R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})";
  parts.pre_tokenizer = R"({"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false})";
  parts.decoder = bytes_decoder(false);
  parts.model_options = kSentencePieceOptions;
  return parts;
}

std::string byte_level(const JsonValue& config, bool use_regex) {
  const bool prefix = config["add_prefix_space"].as_bool().value_or(false);
  return std::string(R"({"type":"ByteLevel","add_prefix_space":)") + (prefix ? "true" : "false") +
         R"(,"trim_offsets":true,"use_regex":)" + (use_regex ? "true" : "false") + "}";
}

ReplacedParts gpt2_parts(const JsonValue& config) {
  ReplacedParts parts;
  parts.normalizer = "null";
  parts.pre_tokenizer = byte_level(config, true);
  parts.decoder = kByteLevelDecoder;
  parts.model_options = kByteLevelOptions;
  return parts;
}

ReplacedParts qwen2_parts(const JsonValue& config) {
  ReplacedParts parts;
  parts.normalizer = R"({"type":"NFC"})";
  parts.pre_tokenizer =
      R"({"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","invert":false,"pattern":{"Regex":)"
      R"("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*)"
      R"(|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},)" +
      byte_level(config, false) + "]}";
  parts.decoder = kByteLevelDecoder;
  parts.model_options = kByteLevelOptions;
  return parts;
}

bool is_known(std::string_view name) {
  return name == kLlama || name == kCodeLlama || name == kGemma || name == kGpt2 || name == kQwen2;
}

}  // namespace

std::string tokenizer_class(std::string_view declared, std::string_view model_type, std::string_view tokenizer_json) {
  if (declared.ends_with("Fast")) declared.remove_suffix(4);
  const ModelRule* rule = find_rule(model_type);
  const bool declared_is_wrong = rule != nullptr && rule->declared_is_wrong;
  // Llama 3's files declare Llama 2's class.
  if (declared == kLlama && !declared_is_wrong && !(rule != nullptr && rule->is_mistral) &&
      tokenizer_json.find("\"ByteLevel\"") != std::string_view::npos) {
    return std::string(kFile);
  }
  std::string_view chosen = declared;
  if (rule != nullptr && (declared.empty() || rule->registered == kFile || declared_is_wrong))
    chosen = rule->registered;
  return std::string(is_known(chosen) ? chosen : kFile);
}

ReplacedParts parts_of_class(std::string_view name, const JsonValue& tokenizer_config) {
  if (name == kLlama) return llama_parts(tokenizer_config);
  if (name == kCodeLlama) return code_llama_parts(tokenizer_config);
  if (name == kGemma) return gemma_parts();
  if (name == kGpt2) return gpt2_parts(tokenizer_config);
  if (name == kQwen2) return qwen2_parts(tokenizer_config);
  return {};
}

}  // namespace unspool
