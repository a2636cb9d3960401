#include "grammar/xgrammar.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "grammar/xgrammar_backend.h"

namespace unspool {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool holds_xgrammar(const fs::path& directory) {
  return is_there(directory / "xgrammar" / "libxgrammar_bindings.so");
}

// A virtual environment's site-packages; its name holds Python's version.
void add_environment(const fs::path& environment, std::vector<fs::path>& out) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(environment / "lib", error)) {
    if (entry.path().filename().string().starts_with("python")) out.push_back(entry.path() / "site-packages");
  }
}

// Where packages may be, best first. The working directory is not among them: whose files lie there is not known.
std::vector<fs::path> candidates() {
  std::vector<fs::path> out;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  out.push_back(program / "site-packages");
  // As pip leaves a wheel: <packages>/unspool/bin/unspool.
  const fs::path package = program.parent_path();
  if (program.filename() == "bin" && is_there(package / "__init__.py")) out.push_back(package.parent_path());
  add_environment(program.parent_path(), out);  // <environment>/bin/unspool
  for (fs::path above = program; above.has_relative_path(); above = above.parent_path()) {
    add_environment(above / ".venv", out);
  }
  if (const char* active = std::getenv("VIRTUAL_ENV")) add_environment(active, out);
  return out;
}

Error missing(const std::string& why) {
  return not_found(fmt::format(
      "Structured outputs need the PyPI packages xgrammar=={} and apache-tvm-ffi=={}, and {}. Install them with `pip "
      "install --no-deps xgrammar=={} apache-tvm-ffi=={}` and start the server again.",
      kXgrammarVersion, kTvmFfiVersion, why, kXgrammarVersion, kTvmFfiVersion));
}

// Five pieces, and what must come of "a+1" over them.
class ProbeTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view, bool) const override { return {}; }
  std::string decode(std::span<const int32_t>, bool) const override { return {}; }
  int32_t vocab_size() const override { return static_cast<int32_t>(kPieces.size()); }
  std::string_view id_to_piece(int32_t id) const override { return kPieces[id]; }
  int32_t piece_to_id(std::string_view) const override { return -1; }
  std::string_view id_to_bytes(int32_t id) const override { return kPieces[id]; }
  bool is_special(int32_t id) const override { return id == kStop; }
  int32_t max_piece_chars() const override { return 4; }

  static constexpr int32_t kA = 0;
  static constexpr int32_t kB = 1;
  static constexpr int32_t kOne = 3;
  static constexpr int32_t kStop = 4;

 private:
  static constexpr std::array<std::string_view, 5> kPieces = {"a", "b", "aa", "1", "</s>"};
};

bool follows(GrammarMatcher& matcher, uint32_t allowed, int32_t token) {
  uint32_t mask = 0;
  return matcher.fill_mask(std::span(&mask, 1)) && (mask & 0x1F) == allowed && !matcher.terminated() &&
         matcher.accept(token);
}

Status probe(const std::shared_ptr<const XgrammarApi>& api) {
  using Probe = ProbeTokenizer;
  XgrammarBackend backend(api, {std::make_shared<Probe>(), 5, Probe::kStop});
  UNSPOOL_ASSIGN(const auto grammar, backend.compile({GrammarKind::kRegex, "a+1"}));
  UNSPOOL_ASSIGN(const auto matcher, grammar->matcher({}));
  UNSPOOL_ASSIGN(const auto refuses, grammar->matcher(std::array{Probe::kOne}));
  const bool as_expected = follows(*matcher, 0b00101, Probe::kA) && follows(*matcher, 0b01101, Probe::kOne) &&
                           follows(*matcher, 0b10000, Probe::kStop) && matcher->terminated() &&
                           !refuses->accept(Probe::kB);
  if (!as_expected) return invalid_argument("its masks are not those of the grammar");
  for (const GrammarSpec& spec :
       {GrammarSpec{GrammarKind::kJsonSchema, R"({"enum":["a"]})", false},
        GrammarSpec{GrammarKind::kEbnf, R"(root ::= "a" "1")"}, GrammarSpec{GrammarKind::kLark, R"(start: "a" "1")"},
        GrammarSpec{GrammarKind::kStructuralTag,
                    R"({"type":"structural_tag","format":{"type":"const_string","value":"a"}})"}}) {
    UNSPOOL_TRY(backend.compile(spec));
  }
  if (backend.compile({GrammarKind::kRegex, "("}).ok()) return invalid_argument("it takes a broken pattern");
  return {};
}

}  // namespace

Result<fs::path> find_xgrammar(const std::string& directory) {
  if (!directory.empty()) {
    if (holds_xgrammar(directory)) return fs::path(directory);
    return missing(fmt::format("UNSPOOL_XGRAMMAR names {}, which does not hold them", directory));
  }
  for (const fs::path& candidate : candidates()) {
    if (holds_xgrammar(candidate)) return candidate;
  }
  return missing("they were found neither beside the program nor in a virtual environment");
}

Result<std::unique_ptr<GrammarBackend>> load_xgrammar(const fs::path& directory, GrammarVocabulary vocabulary) {
  if (!is_there(directory / fmt::format("xgrammar-{}.dist-info", kXgrammarVersion))) {
    return missing(fmt::format("{} holds another version of xgrammar", directory.string()));
  }
  const auto api = XgrammarApi::load(directory);
  if (!api.ok()) return missing(api.error().message);
  if (const Status status = probe(*api); !status.ok()) {
    return missing(fmt::format("the ones in {} do not work: {}", directory.string(), status.error().message));
  }
  return std::unique_ptr<GrammarBackend>(std::make_unique<XgrammarBackend>(*api, std::move(vocabulary)));
}

}  // namespace unspool
