// <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/python_json.h"
#include "chat/schema_types.h"
#include "chat/tagged_calls.h"
#include "chat/xml_parameters.h"

namespace unspool::chat {
namespace {

constexpr std::string_view kCallOpen = "<tool_call>";
constexpr std::string_view kCallClose = "</tool_call>";
constexpr std::string_view kFunctionOpen = "<function=";
constexpr std::string_view kFunctionClose = "</function>";
constexpr std::string_view kThinkClose = "</think>";
constexpr std::array<std::string_view, 5> kTags{kCallOpen, kCallClose, kFunctionOpen, kFunctionClose, kThinkClose};

class Scanner : public TaggedScanner {
 public:
  explicit Scanner(bool drops_think_end) : TaggedScanner(kTags), drops_think_end_(drops_think_end) {}

 private:
  void byte(char c, CallSink& sink) override {
    if (c == '>' && part_ == Part::kName) {
      part_ = Part::kArguments;
    } else {
      plain(std::string_view(&c, 1), sink);
    }
  }

  void found(std::string_view tag, CallSink& sink) override {
    switch (part_) {
      case Part::kContent:
        if (tag == kThinkClose && drops_think_end_) return;
        if (tag == kCallOpen) return begin(Part::kPreamble, sink);
        if (tag == kFunctionOpen) return begin(Part::kName, sink);
        return plain(tag, sink);
      case Part::kPreamble:
        if (tag == kCallClose) end(Part::kContent, sink);
        if (tag == kFunctionOpen) part_ = Part::kName;
        return;
      case Part::kName:
      case Part::kArguments:
        if (tag == kFunctionClose) return end(Part::kBetween, sink);
        return plain(tag, sink);
      case Part::kBetween:
        if (tag == kCallClose) part_ = Part::kContent;
        if (tag == kCallOpen) begin(Part::kPreamble, sink);
        if (tag == kFunctionOpen) begin(Part::kName, sink);
        return;
    }
  }

  bool drops_think_end_;
};

class Qwen3XmlStream : public TaggedStream {
 public:
  explicit Qwen3XmlStream(const FormatOptions& options)
      : TaggedStream(std::make_unique<Scanner>(options.drops_think_end), options.wants_calls), options_(options) {}

 private:
  // A call that ended without a closing tag of its own is over as well.
  void begin_call() override {
    TaggedStream::begin_call();
    parameters_.reset();
  }
  void arguments(std::string_view text) override {
    send_name();
    if (parameters_) parameters_->read(text, ready_);
    append_arguments(*out_, index_, std::exchange(ready_, {}));
  }
  void end_call() override {
    send_name();
    if (parameters_) parameters_->finish(ready_);
    append_arguments(*out_, index_, std::exchange(ready_, {}));
    parameters_.reset();
    name_.clear();
  }

  // The name is whole where something follows it. A call without one is none.
  void send_name() {
    const std::string_view name = strip(name_);
    if (parameters_ || name.empty()) return;
    append_name(*out_, index_, std::string(name));
    parameters_.emplace(options_.schemas.properties_of(name));
  }

  const FormatOptions& options_;
  std::optional<XmlParameterStream> parameters_;
  std::string ready_;
};

class Collector : public TaggedCollector {
 public:
  explicit Collector(const FormatOptions& options) : TaggedCollector(options) {}

 private:
  std::optional<ToolCall> call(const std::string& written_name, const std::string& arguments) const override {
    const std::string_view name = strip(written_name);
    if (name.empty()) return std::nullopt;
    PythonJson json = read_xml_parameters(arguments);
    if (const PythonJson* const properties = options_.schemas.properties_of(name)) coerce_arguments(json, *properties);
    return ToolCall{std::string(name), dump_python_json(json)};
  }
};

class Qwen3XmlFormat : public ToolFormat {
 public:
  explicit Qwen3XmlFormat(FormatOptions options) : options_(std::move(options)) {}

  ParsedOutput parse(std::string_view content) const override {
    Scanner scanner(options_.drops_think_end);
    return Collector(options_).collect(content, scanner);
  }
  std::unique_ptr<ToolStream> stream() const override { return std::make_unique<Qwen3XmlStream>(options_); }
  bool hides_markup() const override { return true; }

 private:
  FormatOptions options_;
};

}  // namespace

std::unique_ptr<const ToolFormat> make_qwen3_xml_format(FormatOptions options) {
  return std::make_unique<Qwen3XmlFormat>(std::move(options));
}

}  // namespace unspool::chat
