// [name(key=literal, ...), ...]: calls as Python would write them.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/python_calls.h"
#include "chat/tool_format.h"

namespace unspool::chat {
namespace {

// Finds where each call of a list ends, byte by byte: at its closing parenthesis, outside of strings.
class CallFinder {
 public:
  // True when `c` ends a call.
  bool push(char c) {
    switch (part_) {
      case Part::kOneQuote:
        part_ = c == quote_ ? Part::kTwoQuotes : Part::kString;
        is_triple_ = false;
        if (part_ == Part::kString) in_string(c);
        return false;
      case Part::kTwoQuotes:
        // An empty string, or what opens a long one.
        is_triple_ = c == quote_;
        part_ = is_triple_ ? Part::kString : Part::kCode;
        run_ = 0;
        return !is_triple_ && in_code(c);
      case Part::kString:
        in_string(c);
        return false;
      case Part::kCode:
        return in_code(c);
    }
    return false;
  }

 private:
  enum class Part : uint8_t { kCode, kOneQuote, kTwoQuotes, kString };

  bool in_code(char c) {
    if (c == '"' || c == '\'') {
      quote_ = c;
      part_ = Part::kOneQuote;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth_;
    } else if (c == ')' || c == ']' || c == '}') {
      if (depth_ > 0) --depth_;
      return c == ')' && depth_ == 0;
    }
    return false;
  }

  void in_string(char c) {
    if (is_escape_) {
      is_escape_ = false;
      return;
    }
    run_ = c == quote_ ? run_ + 1 : 0;
    is_escape_ = c == '\\';
    if (run_ < (is_triple_ ? 3 : 1)) return;
    part_ = Part::kCode;
    run_ = 0;
  }

  Part part_ = Part::kCode;
  size_t depth_ = 0;
  char quote_ = '\0';
  bool is_triple_ = false;
  int run_ = 0;  // quotes in a row
  bool is_escape_ = false;
};

class PythonicStream : public ToolStream {
 public:
  void read(std::string_view text, OutputDelta& out) override {
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      switch (part_) {
        case Part::kStart:
          part_ = c == '[' ? Part::kBefore : Part::kContent;
          if (part_ == Part::kContent) append_content(out, text.substr(i));
          break;
        case Part::kContent:
          if (i == 0) append_content(out, text);
          return;
        case Part::kBefore:
        case Part::kCall:
          read_call(c, out);
          break;
        case Part::kAfter:
          read_after(c);
          break;
        case Part::kStuck:
          return;
      }
    }
  }
  void finish(OutputDelta&) override {}

 private:
  enum class Part : uint8_t { kStart, kContent, kBefore, kCall, kAfter, kStuck };

  void read_call(char c, OutputDelta& out) {
    if (part_ == Part::kBefore && is_ascii_space(c)) return;
    part_ = Part::kCall;
    call_ += c;
    if (!finder_.push(c)) return;
    PythonCallReader reader(call_);
    const auto call = reader.read_call();
    if (!call || !reader.at_end()) {
      part_ = Part::kStuck;
      return;
    }
    append_name(out, index_, call->name);
    out.tool_calls.back().arguments = dump_python_json(call->arguments);
    ++index_;
    call_.clear();
    part_ = Part::kAfter;
  }

  void read_after(char c) {
    if (is_ascii_space(c)) return;
    part_ = c == ',' ? Part::kBefore : Part::kStuck;
  }

  Part part_ = Part::kStart;
  CallFinder finder_;
  std::string call_;
  int index_ = 0;
};

std::optional<std::vector<ToolCall>> read_calls(std::string_view text) {
  PythonCallReader reader(text);
  if (!text.starts_with('[') || !reader.take('[')) return std::nullopt;
  if (text.size() > 1 && is_ascii_space(text[1])) return std::nullopt;
  std::vector<ToolCall> calls;
  // Past a first argument the reference's pattern takes anything.
  bool is_free = false;
  do {
    const auto call = reader.read_call();
    if (!call || !(is_free || call->is_plain)) return std::nullopt;
    is_free = is_free || !call->arguments.items.empty();
    calls.push_back({call->name, dump_python_json(call->arguments)});
  } while (reader.take(','));
  if (!reader.take(']')) return std::nullopt;
  reader.skip_space();
  if (!reader.at_end()) return std::nullopt;
  return calls;
}

class PythonicFormat : public ToolFormat {
 public:
  ParsedOutput parse(std::string_view content) const override {
    auto calls = read_calls(content);
    if (!calls) return {std::nullopt, std::string(content), {}};
    return {std::nullopt, std::nullopt, std::move(*calls)};
  }
  std::unique_ptr<ToolStream> stream() const override { return std::make_unique<PythonicStream>(); }
};

}  // namespace

std::unique_ptr<const ToolFormat> make_pythonic_format() {
  return std::make_unique<PythonicFormat>();
}

}  // namespace unspool::chat
