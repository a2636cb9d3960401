#include "grammar/grammar_errors.h"

#include <fmt/format.h>

#include <algorithm>

namespace unspool {
namespace {

// "[03:49:18] /project/cpp/regex_converter.cc:94: text\n" -> "text"; so with "Check failed: (...) is false: text".
std::string_view bare(std::string_view message) {
  const auto skip_past = [&](std::string_view mark) {
    const size_t at = message.find(mark);
    if (at != std::string_view::npos) message.remove_prefix(at + mark.size());
  };
  if (message.starts_with('[')) {
    skip_past(".cc:");
    skip_past(": ");
  }
  if (message.starts_with("Check failed: ")) skip_past(" is false: ");
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.remove_suffix(1);
  return message;
}

// A message quotes what it does not understand, and that can be long.
std::string shown(std::string_view text) {
  constexpr size_t kMaxBytes = 1000;
  if (text.size() <= kMaxBytes) return std::string(text);
  size_t end = kMaxBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace

Error grammar_error(GrammarKind kind, std::string_view message) {
  const std::string text = shown(bare(message));
  constexpr std::string_view kUnknownType = "Unsupported type \"";
  switch (kind) {
    case GrammarKind::kJsonSchema:
      if (text.starts_with(kUnknownType)) {
        return invalid_argument(
            "Grammar error: Invalid type: " +
            text.substr(kUnknownType.size(), text.find('"', kUnknownType.size()) - kUnknownType.size()));
      }
      return invalid_argument("Failed to transform json schema into a grammar: " + text);
    case GrammarKind::kRegex:
      return invalid_argument("Failed to transform regex into a grammar: " + text);
    case GrammarKind::kEbnf:
    case GrammarKind::kLark:
      return invalid_argument("Invalid grammar specification: " + text);
    case GrammarKind::kStructuralTag:
      break;
  }
  return invalid_argument("Invalid structural tag specification: " + text);
}

Error grammar_too_large(double limit_s) {
  return invalid_argument(
      fmt::format("The grammar takes more than {} s of processor time. Simplify it: fewer alternatives, optional "
                  "properties or nested repetitions.",
                  limit_s));
}

Error blame_field(const StructuredOutputs& asked, Error error) {
  if (asked.grammar.kind != GrammarKind::kStructuralTag || asked.field.empty()) return error;
  if (error.kind != ErrorKind::kInvalidArgument) return error;
  return invalid_argument(
      fmt::format("Invalid {} structural_tag specification. (parameter={})", asked.field, asked.field), asked.field);
}

}  // namespace unspool
