// [TOOL_CALLS][{"name": ..., "arguments": ...}, ...]: Mistral's tokenizers before [ARGS].
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

constexpr std::string_view kMarker = "[TOOL_CALLS]";

class MistralArrayStream : public ToolStream {
 public:
  // A forced call may come without the marker, as its grammar has none.
  explicit MistralArrayStream(bool is_forced) : part_(is_forced ? Part::kForced : Part::kContent) {}

  void read(std::string_view text, OutputDelta& out) override {
    for (const char c : text) {
      plain_.clear();
      const bool is_marker = marker_.push(c, plain_);
      for (const char byte : plain_) read_byte(byte, out);
      if (is_marker && (part_ == Part::kContent || part_ == Part::kForced)) part_ = Part::kBefore;
    }
  }
  void finish(OutputDelta& out) override {
    for (const char byte : marker_.held()) read_byte(byte, out);
  }

 private:
  enum class Part : uint8_t { kContent, kForced, kBefore, kBetween, kCall, kAfter, kStuck };

  void read_byte(char c, OutputDelta& out) {
    switch (part_) {
      case Part::kContent:
      case Part::kAfter:
        return append_content(out, std::string_view(&c, 1));
      case Part::kForced:
      case Part::kBefore:
        return begin(c, out);
      case Part::kBetween:
        return between(c, out);
      case Part::kCall:
        return read_call(c, out);
      case Part::kStuck:
        return;
    }
  }

  void begin(char c, OutputDelta& out) {
    if (is_ascii_space(c)) return;
    is_array_ = c == '[';
    part_ = is_array_ ? Part::kBetween : Part::kStuck;
    if (c == '{') begin_call(c, out);
  }

  void between(char c, OutputDelta& out) {
    if (is_ascii_space(c)) return;
    if (c == ']' && !after_comma_) {
      part_ = Part::kAfter;
    } else if (c == ',' && calls_ > 0 && !after_comma_) {
      after_comma_ = true;
    } else if (c == '{' && (calls_ == 0 || after_comma_)) {
      begin_call(c, out);
    } else {
      part_ = Part::kStuck;
    }
  }

  void begin_call(char c, OutputDelta& out) {
    after_comma_ = false;
    part_ = Part::kCall;
    call_.emplace(calls_++, CallObject::Style::kVerbatim);
    read_call(c, out);
  }

  void read_call(char c, OutputDelta& out) {
    call_->push(c, out);
    if (call_->failed()) {
      part_ = Part::kStuck;
    } else if (call_->is_over()) {
      part_ = is_array_ ? Part::kBetween : Part::kAfter;
    }
  }

  Part part_;
  TagMatcher marker_{kMarker};
  std::string plain_;
  bool is_array_ = false;
  bool after_comma_ = false;
  int calls_ = 0;
  std::optional<CallObject> call_;
};

// The calls in a JSON value: an object or a list of them. What is no call is passed over.
std::vector<ToolCall> calls_in(const PythonJson& json) {
  std::vector<ToolCall> calls;
  const auto add = [&](const PythonJson& object) {
    const PythonJson* const name = object.find("name");
    const PythonJson* const arguments = object.find("arguments");
    if (name == nullptr && arguments == nullptr) return;
    ToolCall& call = calls.emplace_back();
    if (name != nullptr && name->is_string()) call.name = name->text;
    if (arguments == nullptr || arguments->kind == PythonJson::Kind::kNull) {
      call.arguments = "{}";
    } else {
      call.arguments = arguments->is_string() ? arguments->text : dump_python_json(*arguments);
    }
  };
  if (json.is_object()) add(json);
  if (json.is_array()) {
    for (const PythonJson& item : json.items) {
      if (item.is_object()) add(item);
    }
  }
  return calls;
}

// The first JSON value of a text; else what is from the first "[{" to the last "}]".
std::optional<PythonJson> find_json(std::string_view text) {
  if (auto decoded = decode_python_json(text)) return std::move(decoded->value);
  const size_t begin = text.find("[{");
  const size_t end = text.rfind("}]");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin + 2) return std::nullopt;
  return parse_python_json(text.substr(begin, end + 2 - begin));
}

class MistralArrayFormat : public ToolFormat {
 public:
  explicit MistralArrayFormat(bool is_forced) : is_forced_(is_forced) {}

  ParsedOutput parse(std::string_view content) const override {
    const size_t marker = content.find(kMarker);
    ParsedOutput out;
    out.content = content;
    if (marker == std::string_view::npos && !is_forced_) {
      if (content.empty()) out.content.reset();
      return out;
    }
    const std::string_view json = marker == std::string_view::npos ? strip(content) : first_segment(content, marker);
    const auto value = find_json(json);
    if (value) out.tool_calls = calls_in(*value);
    if (out.tool_calls.empty()) {
      out.content = json;
      if (json.empty()) out.content.reset();
      return out;
    }
    out.content->resize(marker == std::string_view::npos ? 0 : marker);
    if (is_blank(*out.content)) out.content.reset();
    return out;
  }

  std::unique_ptr<ToolStream> stream() const override { return std::make_unique<MistralArrayStream>(is_forced_); }

 private:
  // What follows the marker; several with nothing between them are one, and one behind the calls ends them.
  static std::string_view first_segment(std::string_view content, size_t marker) {
    while (marker != std::string_view::npos) {
      const size_t begin = marker + kMarker.size();
      marker = content.find(kMarker, begin);
      const std::string_view segment = strip(content.substr(begin, marker - begin));
      if (!segment.empty()) return segment;
    }
    return {};
  }

  bool is_forced_;
};

}  // namespace

std::unique_ptr<const ToolFormat> make_mistral_array_format(FormatOptions options) {
  return std::make_unique<MistralArrayFormat>(options.is_forced);
}

}  // namespace unspool::chat
