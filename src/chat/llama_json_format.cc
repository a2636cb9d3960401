// {"name": ..., "parameters": ...}, after <|python_tag|> or without it; several are separated by semicolons.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/call_object.h"
#include "chat/python_json.h"
#include "chat/tool_format.h"

namespace unspool::chat {
namespace {

constexpr std::string_view kPythonTag = "<|python_tag|>";

class LlamaJsonStream : public ToolStream {
 public:
  void read(std::string_view text, OutputDelta& out) override {
    for (size_t i = 0; i < text.size(); ++i) {
      switch (part_) {
        case Part::kStart:
          read_start(text[i], out);
          break;
        case Part::kContent:
          append_content(out, text.substr(i));
          return;
        case Part::kBetween:
          read_between(text[i], out);
          break;
        case Part::kCall:
          read_call(text[i], out);
          break;
        case Part::kStuck:
          return;
      }
    }
  }

  void finish(OutputDelta& out) override {
    if (part_ == Part::kStart) append_content(out, tag_.held());
  }

 private:
  enum class Part : uint8_t { kStart, kContent, kBetween, kCall, kStuck };

  // Only a text that begins like a call is one.
  void read_start(char c, OutputDelta& out) {
    const bool is_first = tag_.held().empty();
    std::string plain;
    if (tag_.push(c, plain)) {
      part_ = Part::kBetween;
    } else if (is_first && c == '{') {
      part_ = Part::kBetween;
      read_between(c, out);
    } else if (!plain.empty()) {
      append_content(out, plain);
      append_content(out, tag_.held());
      part_ = Part::kContent;
    }
  }

  void read_between(char c, OutputDelta& out) {
    if (is_ascii_space(c) || (c == ';' && calls_ > 0)) {
      follows_call_ = false;
      return;
    }
    if (c != '{' || follows_call_) {
      part_ = Part::kStuck;
      return;
    }
    part_ = Part::kCall;
    call_.emplace(calls_++, CallObject::Style::kReformatted);
    read_call(c, out);
  }

  void read_call(char c, OutputDelta& out) {
    call_->push(c, out);
    if (call_->failed()) {
      part_ = Part::kStuck;
    } else if (call_->is_over()) {
      part_ = Part::kBetween;
      follows_call_ = true;
    }
  }

  Part part_ = Part::kStart;
  TagMatcher tag_{kPythonTag};
  int calls_ = 0;
  bool follows_call_ = false;  // without a gap
  std::optional<CallObject> call_;
};

std::optional<ToolCall> to_call(const PythonJson& object) {
  const PythonJson* const name = object.find("name");
  const PythonJson* arguments = object.find("arguments");
  if (arguments == nullptr) arguments = object.find("parameters");
  if (name == nullptr || !name->is_string() || arguments == nullptr) return std::nullopt;
  return ToolCall{name->text, dump_python_json(*arguments)};
}

class LlamaJsonFormat : public ToolFormat {
 public:
  // Every brace must begin a call, whatever stands between them: else the whole text is content.
  ParsedOutput parse(std::string_view content) const override {
    std::vector<ToolCall> calls;
    for (size_t at = content.find('{'); at != std::string_view::npos; at = content.find('{', at)) {
      const auto object = decode_python_json(content.substr(at));
      auto call = object ? to_call(object->value) : std::nullopt;
      if (!call) return {std::nullopt, std::string(content), {}};
      calls.push_back(std::move(*call));
      // The reference overlooks a brace that follows without a gap.
      at += object->size + 1;
    }
    if (calls.empty()) return {std::nullopt, std::string(content), {}};
    return {std::nullopt, std::nullopt, std::move(calls)};
  }

  std::unique_ptr<ToolStream> stream() const override { return std::make_unique<LlamaJsonStream>(); }
};

}  // namespace

std::unique_ptr<const ToolFormat> make_llama_json_format() {
  return std::make_unique<LlamaJsonFormat>();
}

}  // namespace unspool::chat
