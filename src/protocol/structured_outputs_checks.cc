// What is refused of a constraint before it is compiled, and what the grammar engine gets of it.
#include <fmt/format.h>

#include <algorithm>

#include "json/json_writer.h"
#include "protocol/python_text.h"
#include "protocol/schema_limits.h"
#include "protocol/structured_outputs.h"

namespace unspool {
namespace {

// str.strip() == ""
bool is_blank(const std::optional<std::string>& text) {
  return text && text->find_first_not_of(" \t\n\r\v\f") == std::string::npos;
}

std::optional<JsonDocument> parse(std::string_view text) {
  auto document = JsonDocument::parse(text);
  return document.ok() ? std::optional(std::move(*document)) : std::nullopt;
}

MaybeError check_texts(const StructuredOutputsFields& f) {
  if (f.choice && f.choice->empty()) return bad_request("Choice '[]' cannot be an empty list");
  if (is_blank(f.grammar)) return bad_request("structured_outputs.grammar cannot be an empty string");
  if (is_blank(f.json)) return bad_request("structured_outputs.json cannot be an empty string");
  if (f.json) {
    const auto schema = parse(*f.json);
    if (auto error = schema ? check_schema_nesting(schema->root()) : std::nullopt) return error;
  }
  if (f.structural_tag) {
    const auto tag = parse(*f.structural_tag);
    if (auto error = tag ? check_tag_nesting(tag->root()) : std::nullopt) return error;
  }
  if (f.json_object == false) {
    return bad_request(
        "structured_outputs.json_object must be True if set; omit structured_outputs to disable structured outputs");
  }
  if (f.regex && f.regex->find('\0') != std::string::npos) {
    return bad_request("structured_outputs.regex must not contain a NUL character ('\\x00')");
  }
  if (is_blank(f.structural_tag)) return bad_request("structured_outputs.structural_tag cannot be an empty string");
  return std::nullopt;
}

MaybeError check_schema(const std::string& text) {
  const auto schema = parse(text);
  if (!schema) return bad_request("Invalid JSON grammar specification.");
  if (!has_unsupported_features(schema->root())) return std::nullopt;
  return bad_request("The provided JSON schema contains features not supported by xgrammar.");
}

enum class Whitespace { kAny, kNone, kOther };

// JSON without whitespace matches whatever pattern takes the empty text; a grammar knows no more than all or nothing.
Whitespace whitespace_of(std::string_view pattern) {
  if (pattern.empty()) return Whitespace::kNone;
  const char repeat = pattern.back();
  std::string_view set = pattern.substr(0, pattern.size() - 1);
  if (repeat != '*' && repeat != '?') return Whitespace::kOther;
  const bool bracketed = set.size() > 2 && set.front() == '[' && set.back() == ']';
  if (bracketed) set = set.substr(1, set.size() - 2);
  bool space = false;
  bool newline = false;
  bool tab = false;
  int count = 0;
  for (; !set.empty(); ++count) {
    const size_t width = set.front() == '\\' ? 2 : 1;
    const std::string_view item = set.substr(0, width);
    const bool all = item == "\\s";
    if (!all && item != " " && item != "\\n" && item != "\n" && item != "\\t" && item != "\t" && item != "\\r" &&
        item != "\r") {
      return Whitespace::kOther;
    }
    space |= all || item == " ";
    newline |= all || item == "\\n" || item == "\n";
    tab |= all || item == "\\t" || item == "\t";
    set.remove_prefix(std::min(width, set.size()));
  }
  if (count == 0 || (count > 1 && !bracketed)) return Whitespace::kOther;
  return repeat == '*' && space && newline && tab ? Whitespace::kAny : Whitespace::kNone;
}

// A choice as a grammar of literals.
std::string choice_grammar(const std::vector<std::string>& choices) {
  std::string out = "root ::= ";
  for (size_t i = 0; i < choices.size(); ++i) {
    out += i > 0 ? " | \"" : "\"";
    for (const char c : choices[i]) {
      if (c == '"' || c == '\\') {
        out += {'\\', c};
      } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out += c;
      }
    }
    out += '"';
  }
  return out;
}

// The reference tells the two syntaxes apart by "::=" on any line, comments aside.
bool is_lark(std::string_view grammar) {
  while (!grammar.empty()) {
    const size_t end = grammar.find('\n');
    std::string_view line = grammar.substr(0, end);
    line = line.substr(0, std::min(line.find('#'), line.find("//")));
    if (line.find("::=") != std::string_view::npos) return false;
    grammar = end == std::string_view::npos ? std::string_view() : grammar.substr(end + 1);
  }
  return true;
}

// The older form of a tag, {"structures": [...], "triggers": [...]}, in the words of the newer one.
std::string tag_text(const std::string& text) {
  const auto document = parse(text);
  if (!document) return text;
  const JsonValue tag = document->root();
  if (!tag["structures"].is_array()) return text;
  JsonWriter w;
  w.begin_object();
  w.key("type");
  w.string("structural_tag");
  w.key("format");
  w.begin_object();
  w.key("type");
  w.string("triggered_tags");
  w.key("triggers");
  w.raw(tag["triggers"].dump());
  w.key("tags");
  w.begin_array();
  for (const JsonValue& structure : tag["structures"].elements()) {
    w.begin_object();
    w.key("type");
    w.string("tag");
    w.key("begin");
    w.raw(structure["begin"].dump());
    w.key("content");
    w.begin_object();
    w.key("type");
    w.string("json_schema");
    w.key("json_schema");
    w.raw(structure["schema"].dump());
    w.end_object();
    w.key("end");
    w.raw(structure["end"].dump());
    w.end_object();
  }
  w.end_array();
  w.end_object();
  w.end_object();
  return std::move(w).str();
}

GrammarSpec to_grammar(const StructuredOutputsFields& f, const ServingConfig& config) {
  const bool any_whitespace = !config.disable_any_whitespace && !f.disable_any_whitespace &&
                              whitespace_of(f.whitespace_pattern.value_or("\\s*")) == Whitespace::kAny;
  if (f.json) return {GrammarKind::kJsonSchema, *f.json, any_whitespace};
  if (f.json_object) return {GrammarKind::kJsonSchema, R"({"type":"object"})", any_whitespace};
  if (f.regex) return {GrammarKind::kRegex, *f.regex};
  if (f.choice) return {GrammarKind::kEbnf, choice_grammar(*f.choice)};
  if (f.grammar) return {is_lark(*f.grammar) ? GrammarKind::kLark : GrammarKind::kEbnf, *f.grammar};
  return {GrammarKind::kStructuralTag, tag_text(*f.structural_tag)};
}

}  // namespace

MaybeError check_constraint(const StructuredOutputsFields& f, const ServingConfig& config) {
  if (f.num_kinds() == 0) return std::nullopt;
  if (!config.tokenizer) {
    return bad_request("Structured outputs requires a tokenizer so it can't be used with 'skip_tokenizer_init'");
  }
  if (auto error = check_texts(f)) return error;
  if (!config.no_structured_outputs.empty()) return bad_request(config.no_structured_outputs);
  if (f.whitespace_pattern && whitespace_of(*f.whitespace_pattern) == Whitespace::kOther) {
    return invalid_parameter(
        "This whitespace_pattern is not supported. Omit it, or set disable_any_whitespace for JSON without whitespace.",
        "whitespace_pattern", *f.whitespace_pattern);
  }
  return f.json ? check_schema(*f.json) : std::nullopt;
}

std::string to_structural_format(const StructuredOutputsFields& f, const ServingConfig& config) {
  if (f.num_kinds() == 0) return {};
  const GrammarSpec grammar = to_grammar(f, config);
  if (grammar.kind == GrammarKind::kStructuralTag) {
    const auto tag = parse(grammar.text);
    return tag ? tag->root()["format"].dump() : std::string();
  }
  const auto [type, member] = [&]() -> std::pair<const char*, const char*> {
    if (grammar.kind == GrammarKind::kJsonSchema) return {"json_schema", "json_schema"};
    if (grammar.kind == GrammarKind::kRegex) return {"regex", "pattern"};
    return {"grammar", "grammar"};
  }();
  JsonWriter w;
  w.begin_object();
  w.key("type");
  w.string(type);
  w.key(member);
  if (grammar.kind == GrammarKind::kJsonSchema) {
    w.raw(grammar.text);
  } else {
    w.string(grammar.text);
  }
  w.end_object();
  return std::move(w).str();
}

std::shared_ptr<const StructuredOutputs> to_structured_outputs(const StructuredOutputsFields& f,
                                                               const ServingConfig& config) {
  if (f.num_kinds() == 0) return nullptr;
  return std::make_shared<StructuredOutputs>(StructuredOutputs{
      to_grammar(f, config), f.field, config.enforce_in_reasoning ? std::vector<ReasoningEnd>() : f.reasoning_ends});
}

}  // namespace unspool
