// What a model wrote, taken apart: reasoning, content, calls of tools. Three levels, each kept by the one above it:
// OutputParsers for a server, OutputParser for a request, OutputStream for one choice of a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"

namespace unspool::chat {

// How a request binds the model to its tools, once defaults and checks of the request are through.
enum class ToolChoice : uint8_t { kNone, kAuto, kRequired, kNamed };

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON, as a text
};

// Of a finished text. A part that the reference would answer with null is nullopt.
struct ParsedOutput {
  std::optional<std::string> reasoning;
  std::optional<std::string> content;
  std::vector<ToolCall> tool_calls;
};

// A call's first delta has its name; the caller gives it an id and the type `function`. A name and the first arguments
// that arrive together are two deltas of one index.
struct ToolCallDelta {
  int index = 0;
  std::optional<std::string> name;
  std::optional<std::string> arguments;
};

// What a stream adds. A member that is absent is no key of the reply's delta, but `content` is null beside tool calls.
struct OutputDelta {
  std::optional<std::string> reasoning;
  std::optional<std::string> content;
  std::vector<ToolCallDelta> tool_calls;

  // Nothing to send: such a delta is skipped, unless it is the choice's last or carries logprobs or token ids.
  bool empty() const { return !reasoning && !content && tool_calls.empty(); }
};

struct OutputRequest {
  JsonValue tools;  // the request's, null where there are none; need not outlive the call that takes it
  ToolChoice tool_choice = ToolChoice::kNone;
  std::string function_name;        // the one that is named
  bool parallel_tool_calls = true;  // false: the first call alone
  bool enable_thinking = true;      // the template's variable: request, else server default, else true
};

// One choice of a stream: a machine that is fed the text as it comes. However it is cut into deltas, they add up to the
// same, and the work is linear in the text.
class OutputStream {
 public:
  virtual ~OutputStream() = default;

  // The next text, which may be empty, and the ids it is of. `finished`: nothing follows; what was held back is in this
  // delta or, where the reference loses it, lost. Not to be called after that.
  virtual OutputDelta read(std::string_view text, std::span<const int32_t> token_ids, bool finished) = 0;

  // Of the ids read so far: usage.completion_tokens_details.reasoning_tokens. 0 without a reasoning parser.
  virtual int64_t reasoning_tokens() const = 0;
};

// For one request, all choices of it. Immutable; may be used from several threads at once.
class OutputParser {
 public:
  virtual ~OutputParser() = default;

  virtual ParsedOutput parse(std::string_view text) const = 0;
  // `prompt_token_ids` say whether the prompt's end is within reasoning; they need not outlive the call. The stream
  // must not outlive this.
  virtual std::unique_ptr<OutputStream> stream(std::span<const int32_t> prompt_token_ids) const = 0;

  // skip_special_tokens is forced false: markers are special tokens in some models.
  virtual bool keeps_special_tokens() const = 0;
  // Of a choice's ids. 0 without a reasoning parser.
  virtual int64_t count_reasoning_tokens(std::span<const int32_t> token_ids) const = 0;
};

// The id of a text that is one token of the vocabulary; nullopt where it is none.
using TokenLookup = std::function<std::optional<int32_t>(std::string_view)>;

// --tool-strict-level: what a grammar holds calls to, at least. kAuto: as tool_choice and each tool's `strict` say.
enum class ToolStrictLevel : uint8_t { kAuto, kFunction, kParameter };
std::optional<ToolStrictLevel> parse_tool_strict_level(std::string_view name);

struct ToolGrammarRequest {
  JsonValue tools;  // as above
  ToolChoice tool_choice = ToolChoice::kNone;
  std::string function_name;  // the one that is named
  bool parallel_tool_calls = true;
  ToolStrictLevel strict_level = ToolStrictLevel::kAuto;
  // What response_format or structured_outputs ask for, as a format of a structural tag in JSON; empty: nothing. With a
  // forced call it is ignored, with tool_choice `auto` either is allowed.
  std::string output_format;
};

// What a sample has to follow, in place of the request's own structured outputs.
struct ToolGrammar {
  enum class Kind : uint8_t { kStructuralTag, kJsonSchema };
  Kind kind = Kind::kStructuralTag;
  std::string text;  // JSON
};

// A token that ends reasoning.
struct ReasoningEndToken {
  int32_t token_id = -1;
  bool is_content = false;  // it belongs to what follows
};

// The server's, by --tool-call-parser and --reasoning-parser. Immutable; may be used from several threads at once.
class OutputParsers {
 public:
  // Empty names: no such parser. A tool-call parser is given only with --enable-auto-tool-choice; without that flag the
  // reference does not load it. Errors: kInvalidArgument for an unknown name, with those there are, and for a tokenizer
  // that lacks the markers that a parser lives by. Without `strict_tool_calling` forced calls are plain JSON, whatever
  // the format, and `auto` is never constrained.
  static Result<std::unique_ptr<const OutputParsers>> create(std::string_view tool_call_parser,
                                                             std::string_view reasoning_parser,
                                                             const TokenLookup& token_id,
                                                             bool strict_tool_calling = true);
  virtual ~OutputParsers() = default;

  virtual bool parses_tools() const = 0;
  virtual bool parses_reasoning() const = 0;
  // nullopt: the request's own structured outputs hold, if it has some.
  virtual std::optional<ToolGrammar> tool_grammar(const ToolGrammarRequest& request) const = 0;
  // The first of these that is generated ends the reasoning; empty where the prompt leaves none open.
  virtual std::vector<ReasoningEndToken> reasoning_ends(std::span<const int32_t> prompt_token_ids,
                                                        bool enable_thinking) const = 0;
  // The result must not outlive this.
  virtual std::unique_ptr<const OutputParser> for_request(const OutputRequest& request) const = 0;
};

// The names that the flags take, sorted.
std::vector<std::string_view> tool_call_parser_names();
std::vector<std::string_view> reasoning_parser_names();

}  // namespace unspool::chat
