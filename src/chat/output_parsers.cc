#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "chat/output_parser.h"
#include "chat/reasoning.h"
#include "chat/tool_format.h"
#include "chat/tool_grammar.h"

namespace unspool::chat {
namespace {

enum class FormatName : uint8_t { kHermes, kLlamaJson, kMistral, kPythonic, kQwen3Xml };

template <class T>
using Names = std::pair<std::string_view, T>;

// Sorted by name.
constexpr std::array<Names<FormatName>, 8> kFormats{{{"hermes", FormatName::kHermes},
                                                     {"llama3_json", FormatName::kLlamaJson},
                                                     {"llama4_json", FormatName::kLlamaJson},
                                                     {"mistral", FormatName::kMistral},
                                                     {"pythonic", FormatName::kPythonic},
                                                     {"qwen3_coder", FormatName::kQwen3Xml},
                                                     {"qwen3_json", FormatName::kHermes},
                                                     {"qwen3_xml", FormatName::kQwen3Xml}}};
constexpr std::array<Names<ReasoningName>, 2> kReasoning{
    {{"deepseek_r1", ReasoningName::kDeepSeekR1}, {"qwen3", ReasoningName::kQwen3}}};

template <class Table>
std::vector<std::string_view> names_of(const Table& table) {
  std::vector<std::string_view> names;
  names.reserve(table.size());
  for (const auto& [name, value] : table) names.push_back(name);
  return names;
}

template <class Table>
auto look_up(const Table& table, std::string_view name, std::string_view what)
    -> Result<decltype(table.front().second)> {
  for (const auto& [known, value] : table) {
    if (known == name) return value;
  }
  return invalid_argument(
      fmt::format("{} '{}' is not known; there are {}", what, name, fmt::join(names_of(table), ", ")));
}

// Calls beyond the first, where the request wants no more than one.
void keep_first_call(std::vector<ToolCallDelta>& calls) {
  std::erase_if(calls, [](const ToolCallDelta& call) { return call.index > 0; });
}

class Stream : public OutputStream {
 public:
  struct Parts {
    const ReasoningParser* reasoning = nullptr;
    const ToolFormat* format = nullptr;
    bool starts_in_reasoning = false;
    bool has_tool_parser = false;
    bool wants_calls = false;
    bool parallel_tool_calls = true;
  };
  explicit Stream(const Parts& parts) : parts_(parts) {
    if (parts.reasoning != nullptr) reasoning_.emplace(*parts.reasoning, parts.starts_in_reasoning);
    if (parts.format != nullptr) tools_ = parts.format->stream();
  }

  OutputDelta read(std::string_view text, std::span<const int32_t> token_ids, bool finished) override {
    OutputDelta out;
    const bool was_open = reasoning_ && reasoning_->is_open();
    std::string content(text);
    if (reasoning_) {
      auto split = reasoning_->read(text, token_ids, finished);
      if (!split.reasoning.empty()) out.reasoning = std::move(split.reasoning);
      content = std::move(split.content);
    }
    if (tools_ != nullptr) {
      read_tools(content, finished, out);
    } else if (!content.empty() || (!was_open && !parts_.has_tool_parser)) {
      out.content = std::move(content);
    }
    return out;
  }

  int64_t reasoning_tokens() const override { return reasoning_ ? reasoning_->tokens() : 0; }

 private:
  void read_tools(std::string_view content, bool finished, OutputDelta& out) {
    tools_->read(content, out);
    if (finished) tools_->finish(out);
    if (!parts_.wants_calls) out.tool_calls.clear();
    if (!parts_.parallel_tool_calls) keep_first_call(out.tool_calls);
    // The reference adds what of the last call's arguments is left, and nothing is.
    if (finished && !out.tool_calls.empty() && !out.tool_calls.back().arguments) {
      out.tool_calls.back().arguments.emplace();
    }
  }

  Parts parts_;
  std::optional<ReasoningStream> reasoning_;
  std::unique_ptr<ToolStream> tools_;
};

class Parser : public OutputParser {
 public:
  struct Traits {
    bool has_tool_parser = false;
    bool always_keeps_special_tokens = false;
    bool keeps_raw_text = false;  // where no calls are found in it
  };
  Parser(const ReasoningParser* reasoning, std::unique_ptr<const ToolFormat> format, Traits traits,
         const OutputRequest& request)
      : reasoning_(reasoning),
        format_(std::move(format)),
        traits_(traits),
        tool_choice_(request.tool_choice),
        parallel_tool_calls_(request.parallel_tool_calls),
        enable_thinking_(request.enable_thinking),
        has_tools_(request.tools.size() > 0) {}

  ParsedOutput parse(std::string_view text) const override {
    ParsedOutput out;
    out.content = text;
    if (reasoning_ != nullptr) {
      auto [reasoning, content] = reasoning_->parse(text, enable_thinking_);
      out.reasoning = std::move(reasoning);
      out.content = std::move(content);
    }
    if (format_ == nullptr) return out;
    ParsedOutput parsed = format_->parse(out.content.value_or(""));
    if (tool_choice_ == ToolChoice::kNone) {
      out.content = std::move(parsed.content);
      return out;
    }
    const bool is_forced = tool_choice_ != ToolChoice::kAuto;
    if (parsed.tool_calls.empty() && is_forced && is_blank(out.content.value_or(""))) {
      out.content.reset();
      return out;
    }
    if (parsed.tool_calls.empty() && traits_.keeps_raw_text) return out;
    // A content that reasoning took whole stays absent.
    if (out.content || parsed.content != "") out.content = std::move(parsed.content);
    out.tool_calls = std::move(parsed.tool_calls);
    if (!parallel_tool_calls_ && out.tool_calls.size() > 1) out.tool_calls.resize(1);
    return out;
  }

  std::unique_ptr<OutputStream> stream(std::span<const int32_t> prompt_token_ids) const override {
    Stream::Parts parts;
    parts.reasoning = reasoning_;
    parts.format = format_.get();
    parts.starts_in_reasoning = reasoning_ != nullptr && reasoning_->continues(prompt_token_ids, enable_thinking_);
    parts.has_tool_parser = traits_.has_tool_parser;
    parts.wants_calls = tool_choice_ != ToolChoice::kNone;
    parts.parallel_tool_calls = parallel_tool_calls_;
    return std::make_unique<Stream>(parts);
  }

  bool keeps_special_tokens() const override {
    if (reasoning_ != nullptr && reasoning_->keeps_special_tokens()) return true;
    if (traits_.always_keeps_special_tokens) return true;
    return traits_.has_tool_parser && has_tools_ && tool_choice_ != ToolChoice::kNone;
  }

  int64_t count_reasoning_tokens(std::span<const int32_t> token_ids) const override {
    return reasoning_ == nullptr ? 0 : reasoning_->count_tokens(token_ids, enable_thinking_);
  }

 private:
  const ReasoningParser* reasoning_;
  std::unique_ptr<const ToolFormat> format_;  // null where calls are not looked for
  Traits traits_;
  ToolChoice tool_choice_;
  bool parallel_tool_calls_;
  bool enable_thinking_;
  bool has_tools_;
};

class Parsers : public OutputParsers {
 public:
  Parsers(std::optional<FormatName> format, std::optional<ReasoningParser> reasoning, bool has_args_token, bool strict)
      : format_(format), reasoning_(std::move(reasoning)), has_args_token_(has_args_token), strict_(strict) {}

  bool parses_tools() const override { return format_.has_value(); }
  bool parses_reasoning() const override { return reasoning_.has_value(); }

  std::optional<ToolGrammar> tool_grammar(const ToolGrammarRequest& request) const override {
    using Kind = ToolGrammar::Kind;
    const auto grammar = [](Kind kind, std::optional<std::string> text) -> std::optional<ToolGrammar> {
      if (!text) return std::nullopt;
      return ToolGrammar{kind, std::move(*text)};
    };
    if (!format_) return std::nullopt;
    if (forces_json()) return grammar(Kind::kJsonSchema, forced_call_schema(request));
    switch (*format_) {
      case FormatName::kHermes:
        return grammar(Kind::kStructuralTag, structural_tag(CallStyle::kHermes, request));
      case FormatName::kLlamaJson:
        return grammar(Kind::kStructuralTag, structural_tag(CallStyle::kLlamaJson, request));
      case FormatName::kQwen3Xml:
        return grammar(Kind::kStructuralTag, structural_tag(CallStyle::kQwen3Xml, request));
      case FormatName::kPythonic:
        break;
      case FormatName::kMistral:
        // A list is nothing that the other of Mistral's formats could be read from.
        return has_args_token_ ? std::nullopt : grammar(Kind::kJsonSchema, mistral_call_schema(request));
    }
    return std::nullopt;
  }

  std::vector<ReasoningEndToken> reasoning_ends(std::span<const int32_t> prompt_token_ids,
                                                bool enable_thinking) const override {
    std::vector<ReasoningEndToken> ends;
    if (!reasoning_ || !reasoning_->continues(prompt_token_ids, enable_thinking)) return ends;
    const ReasoningMarkers& markers = reasoning_->markers();
    if (markers.end.id) ends.push_back({*markers.end.id, false});
    if (markers.implicit_end && markers.implicit_end->id) ends.push_back({*markers.implicit_end->id, true});
    return ends;
  }

  std::unique_ptr<const OutputParser> for_request(const OutputRequest& request) const override {
    std::unique_ptr<const ToolFormat> format = format_ ? make_format(request) : nullptr;
    // Of the reference's newer parsers, which are called engines, two work together: their markup is no content even
    // where it makes no call, and where nobody wants one.
    const bool is_engine = format_ && (*format_ == FormatName::kMistral || *format_ == FormatName::kQwen3Xml);
    const bool are_engines = is_engine && (!reasoning_ || reasoning_->name() == ReasoningName::kQwen3);
    if (request.tool_choice == ToolChoice::kNone && format && !(format->hides_markup() && are_engines)) format.reset();
    const Parser::Traits traits{.has_tool_parser = format_.has_value(),
                                .always_keeps_special_tokens = is_engine,
                                .keeps_raw_text = is_engine && !are_engines};
    return std::make_unique<Parser>(reasoning_ ? &*reasoning_ : nullptr, std::move(format), traits, request);
  }

 private:
  // Forced calls are not written in the format but as JSON.
  bool forces_json() const {
    return *format_ == FormatName::kPythonic || (!strict_ && *format_ != FormatName::kMistral);
  }

  std::unique_ptr<const ToolFormat> make_format(const OutputRequest& request) const {
    const bool is_forced = request.tool_choice == ToolChoice::kRequired || request.tool_choice == ToolChoice::kNamed;
    FormatOptions options{ToolSchemas::read(request.tools), request.tool_choice != ToolChoice::kNone, is_forced,
                          reasoning_.has_value()};
    if (is_forced && forces_json()) {
      return request.tool_choice == ToolChoice::kNamed ? make_named_format(request.function_name)
                                                       : make_required_format();
    }
    switch (*format_) {
      case FormatName::kHermes:
        return make_hermes_format();
      case FormatName::kLlamaJson:
        return make_llama_json_format();
      case FormatName::kMistral:
        return has_args_token_ ? make_mistral_format(std::move(options))
                               : make_mistral_array_format(std::move(options));
      case FormatName::kPythonic:
        return make_pythonic_format();
      case FormatName::kQwen3Xml:
        return make_qwen3_xml_format(std::move(options));
    }
    return nullptr;
  }

  std::optional<FormatName> format_;
  std::optional<ReasoningParser> reasoning_;
  bool has_args_token_;
  bool strict_;
};

// A format's first marker, where it is one that the reference wants among the tokens.
std::optional<std::string_view> required_token(FormatName format) {
  if (format == FormatName::kLlamaJson) return "<|python_tag|>";
  if (format == FormatName::kMistral) return "[TOOL_CALLS]";
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<const OutputParsers>> OutputParsers::create(std::string_view tool_call_parser,
                                                                   std::string_view reasoning_parser,
                                                                   const TokenLookup& token_id,
                                                                   bool strict_tool_calling) {
  std::optional<FormatName> format;
  if (!tool_call_parser.empty()) {
    UNSPOOL_ASSIGN(format, look_up(kFormats, tool_call_parser, "tool-call parser"));
    const auto token = required_token(*format);
    if (token && !token_id(*token)) {
      return invalid_argument(
          fmt::format("tool-call parser {}: the tokenizer has no token {}", tool_call_parser, *token));
    }
  }
  std::optional<ReasoningParser> reasoning;
  if (!reasoning_parser.empty()) {
    UNSPOOL_ASSIGN(const ReasoningName name, look_up(kReasoning, reasoning_parser, "reasoning parser"));
    UNSPOOL_ASSIGN(reasoning, ReasoningParser::create(name, token_id));
  }
  return std::unique_ptr<const OutputParsers>(
      std::make_unique<Parsers>(format, std::move(reasoning), token_id("[ARGS]").has_value(), strict_tool_calling));
}

std::vector<std::string_view> tool_call_parser_names() {
  return names_of(kFormats);
}

std::vector<std::string_view> reasoning_parser_names() {
  return names_of(kReasoning);
}

}  // namespace unspool::chat
