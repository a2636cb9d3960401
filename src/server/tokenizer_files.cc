#include "server/tokenizer_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/file.h"
#include "json/json.h"
#include "tokenizer/replaced_parts.h"
#include "tokenizer/tokenizer_class.h"

namespace unspool {
namespace {

bool is_directory(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// An empty object where there is no such file.
Result<JsonDocument> read_json(const std::string& path) {
  if (!file_exists(path)) return JsonDocument::parse("{}");
  UNSPOOL_ASSIGN(const std::string text, read_file(path));
  auto document = JsonDocument::parse(text);
  if (!document.ok()) return invalid_argument(fmt::format("{}: {}", path, document.error().message));
  return document;
}

// The end-of-sequence token that tokenizer_config.json names, as text or as an object with `content`.
Result<std::optional<int32_t>> eos_token(const std::string& directory, const JsonValue& config,
                                         const Tokenizer& tokenizer) {
  const JsonValue eos = config["eos_token"];
  const auto content = eos.is_string() ? eos.as_string() : eos["content"].as_string();
  if (!content) return std::optional<int32_t>();
  const int32_t id = tokenizer.piece_to_id(*content);
  if (id < 0) {
    return invalid_argument(
        fmt::format("{}/tokenizer_config.json: eos_token '{}' is not in the vocabulary", directory, *content));
  }
  return std::optional<int32_t>(id);
}

std::string declared_class(const JsonValue& tokenizer_config, const JsonValue& model_config) {
  const auto declared = tokenizer_config["tokenizer_class"].as_string();
  return std::string(declared ? *declared : model_config["tokenizer_class"].as_string().value_or(""));
}

}  // namespace

Result<LoadedTokenizer> load_tokenizer(const ServeOptions& options) {
  if (options.skip_tokenizer) return LoadedTokenizer();
  const std::string& given = options.tokenizer.empty() ? options.model : options.tokenizer;
  const std::string file = is_directory(given) ? given + "/tokenizer.json" : given;
  if (!file_exists(file)) {
    return invalid_argument(
        fmt::format("{} does not exist (--tokenizer names another one, --skip-tokenizer-init serves token "
                    "ids alone)",
                    file));
  }
  LoadedTokenizer out;
  const size_t slash = file.rfind('/');
  out.directory = slash == std::string::npos ? "." : file.substr(0, slash);
  UNSPOOL_ASSIGN(const JsonDocument config, read_json(out.directory + "/tokenizer_config.json"));
  UNSPOOL_ASSIGN(const JsonDocument model_config, read_json(out.directory + "/config.json"));
  UNSPOOL_ASSIGN(const std::string text, read_file(file));
  const std::string name = tokenizer_class(declared_class(config.root(), model_config.root()),
                                           model_config.root()["model_type"].as_string().value_or(""), text);
  auto tokenizer = tokenizer_from_json(text, parts_of_class(name, config.root()));
  if (!tokenizer.ok()) return invalid_argument(fmt::format("{}: {}", file, tokenizer.error().message));
  out.tokenizer = std::move(tokenizer).value();
  UNSPOOL_ASSIGN(out.eos, eos_token(out.directory, config.root(), *out.tokenizer));
  return out;
}

}  // namespace unspool
