#include "server/flag_help.h"

#include <fmt/format.h>

#include "server/flag_table.h"

namespace unspool {
namespace {

constexpr size_t kHelpColumn = 36;
constexpr size_t kHelpWidth = 118;

std::string_view value_name(FlagKind kind) {
  switch (kind) {
    case FlagKind::kSwitch:
      return "";
    case FlagKind::kInteger:
      return " N";
    case FlagKind::kSize:
      return " SIZE";
    case FlagKind::kNumber:
      return " X";
    case FlagKind::kText:
      return " TEXT";
    case FlagKind::kTexts:
      return " TEXT...";
    case FlagKind::kJson:
      break;
  }
  return " JSON";
}

std::string spelling(const FlagSpec& flag) {
  std::string out = flag.alias.empty() ? "" : std::string(flag.alias) + ", ";
  out += fmt::format("--{}{}", flag.name, value_name(flag.kind));
  return out;
}

std::string explanation(const FlagSpec& flag) {
  std::string out(flag.help);
  if (!flag.default_text.empty()) out += fmt::format(" (default: {})", flag.default_text);
  return out;
}

// Breaks `text` between words so that it fits beside the flags.
void append_wrapped(std::string& out, std::string_view text) {
  size_t column = kHelpColumn;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (column + end > kHelpWidth && column > kHelpColumn) {
      out += "\n" + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (column > kHelpColumn) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += '\n';
}

void append_flag(std::string& out, const FlagSpec& flag) {
  std::string line = "  " + spelling(flag);
  if (line.size() + 2 > kHelpColumn) {
    out += line + "\n" + std::string(kHelpColumn, ' ');
  } else {
    out += line + std::string(kHelpColumn - line.size(), ' ');
  }
  append_wrapped(out, explanation(flag));
}

void append_names(std::string& out, FlagSupport support, std::string_view title) {
  out += title;
  std::string line = "\n ";
  for (const FlagGroup& group : flag_groups()) {
    for (const FlagSpec& flag : group.flags) {
      if (flag.support != support) continue;
      if (line.size() + flag.name.size() + 3 > kHelpWidth) {
        out += line;
        line = "\n ";
      }
      line += fmt::format(" --{}", flag.name);
    }
  }
  out += line + "\n";
}

}  // namespace

std::string main_help() {
  return "unspool: a rollout engine for RL post-training\n\n"
         "  unspool serve MODEL [flags]   serve a model directory over HTTP, as vLLM's server does\n"
         "  unspool serve --help          the flags\n"
         "  unspool bench MODEL           its speed without HTTP; --profile: where the time goes\n"
         "  unspool --version             version and instruction set\n"
         "  unspool --help                this text\n";
}

std::string serve_help() {
  std::string out =
      "unspool serve MODEL [flags]\n\n"
      "Serves a Hugging Face model directory. Flags are vLLM's by name: --a-b or --a_b, --no-x for switches,\n"
      "JSON values also by key (--override-generation-config.top_k 1), sizes also as 1k, 2M or 4Gi.\n";
  for (const FlagGroup& group : flag_groups()) {
    std::string flags;
    for (const FlagSpec& flag : group.flags) {
      if (flag.support == FlagSupport::kSupported) append_flag(flags, flag);
    }
    if (!flags.empty()) out += fmt::format("\n{}:\n{}", group.title, flags);
  }
  append_names(out, FlagSupport::kIgnored, "\nAccepted, but without meaning here:");
  append_names(out, FlagSupport::kRefused, "\nRefused unless they say what is so anyway (a size of 1, off, none):");
  return out;
}

std::string flags_markdown() {
  std::string out =
      "# Flags of `unspool serve`\n\n"
      "Written by `unspool serve --help-markdown` from the table in `src/server/flag_table.cc`. Names are vLLM's. "
      "*ignored*: "
      "accepted with a log line; *refused*: the server does not start, unless the value is the neutral one.\n";
  for (const FlagGroup& group : flag_groups()) {
    out += fmt::format("\n## {}\n\n| flag | default | meaning |\n|---|---|---|\n", group.title);
    for (const FlagSpec& flag : group.flags) {
      std::string meaning(flag.help);
      if (flag.support == FlagSupport::kIgnored) meaning = "*ignored*: " + meaning;
      if (flag.support == FlagSupport::kRefused) {
        meaning = "*refused*: " + meaning;
        if (!flag.neutral.empty()) {
          std::string neutral(flag.neutral);
          for (size_t bar = 0; (bar = neutral.find('|', bar)) != std::string::npos; bar += 5)
            neutral.replace(bar, 1, "`, `");
          meaning += fmt::format(" (neutral: `{}`)", neutral);
        }
      }
      out += fmt::format("| `{}` | {} | {} |\n", spelling(flag), flag.default_text, meaning);
    }
  }
  return out;
}

}  // namespace unspool
