// <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/engine_content.h"
#include "chat/python_json.h"
#include "chat/schema_types.h"
#include "chat/tool_format.h"
#include "chat/xml_parameters.h"

namespace unspool::chat {
namespace {

constexpr std::string_view kCallOpen = "<tool_call>";
constexpr std::string_view kCallClose = "</tool_call>";
constexpr std::string_view kFunctionOpen = "<function=";
constexpr std::string_view kFunctionClose = "</function>";
constexpr std::string_view kThinkClose = "</think>";
constexpr std::array<std::string_view, 5> kTags{kCallOpen, kCallClose, kFunctionOpen, kFunctionClose, kThinkClose};

// What a text of this format is made of, in order.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void content(std::string_view text) = 0;
  virtual void begin_call() = 0;
  virtual void name(std::string_view text) = 0;  // a piece of it
  virtual void arguments(std::string_view text) = 0;
  virtual void end_call() = 0;
};

class Scanner {
 public:
  explicit Scanner(bool drops_think_end) : drops_think_end_(drops_think_end) {}

  void read(std::string_view text, Sink& sink) {
    for (const char c : text) push(c, sink);
  }

  void finish(Sink& sink) {
    plain(std::exchange(held_, {}), sink);
    if (part_ != Part::kContent && part_ != Part::kBetween) sink.end_call();
    part_ = Part::kContent;
  }

 private:
  enum class Part : uint8_t { kContent, kPreamble, kName, kArguments, kBetween };

  // Every tag begins with the one '<' that it has.
  void push(char c, Sink& sink) {
    if (c == '<') {
      plain(held_, sink);
      held_ = c;
      return;
    }
    if (!held_.empty()) {
      held_ += c;
      const auto begins = [this](std::string_view tag) { return tag.starts_with(held_); };
      const auto* const tag = std::ranges::find_if(kTags, begins);
      if (tag == kTags.end()) {
        const std::string text = std::exchange(held_, {});
        plain(std::string_view(text).substr(0, text.size() - 1), sink);
      } else {
        if (tag->size() == held_.size()) {
          held_.clear();
          found(*tag, sink);
        }
        return;
      }
    }
    if (c == '>' && part_ == Part::kName) {
      part_ = Part::kArguments;
    } else {
      plain(std::string_view(&c, 1), sink);
    }
  }

  void plain(std::string_view text, Sink& sink) {
    if (text.empty()) return;
    if (part_ == Part::kContent) sink.content(text);
    if (part_ == Part::kName) sink.name(text);
    if (part_ == Part::kArguments) sink.arguments(text);
  }

  void found(std::string_view tag, Sink& sink) {
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

  void begin(Part part, Sink& sink) {
    part_ = part;
    sink.begin_call();
  }
  void end(Part part, Sink& sink) {
    part_ = part;
    sink.end_call();
  }

  bool drops_think_end_;
  Part part_ = Part::kContent;
  std::string held_;
};

class Qwen3XmlStream : public ToolStream, private Sink {
 public:
  explicit Qwen3XmlStream(const FormatOptions& options) : options_(options), scanner_(options.drops_think_end) {}

  void read(std::string_view text, OutputDelta& out) override {
    out_ = &out;
    scanner_.read(text, *this);
  }
  void finish(OutputDelta& out) override {
    out_ = &out;
    scanner_.finish(*this);
    content_.finish(out);
  }

 private:
  void content(std::string_view text) override { content_.read(text, *out_); }
  void begin_call() override {
    // A call that ended without a closing tag of its own is over as well.
    if (options_.wants_calls) content_.begin_call();
    ++index_;
    name_.clear();
    parameters_.reset();
  }
  void name(std::string_view text) override { name_ += text; }
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
  Scanner scanner_;
  OutputDelta* out_ = nullptr;
  EngineContent content_;
  int index_ = -1;
  std::string name_;
  std::optional<XmlParameterStream> parameters_;
  std::string ready_;
};

class Collector : public Sink {
 public:
  explicit Collector(const FormatOptions& options) : options_(options), content_(options.wants_calls) {}

  void content(std::string_view text) override { content_.read(text); }
  void begin_call() override {
    content_.begin_call();
    name_.clear();
    arguments_.clear();
  }
  void name(std::string_view text) override { name_ += text; }
  void arguments(std::string_view text) override { arguments_ += text; }
  void end_call() override {
    const std::string_view name = strip(name_);
    if (name.empty()) return;
    PythonJson arguments = read_xml_parameters(arguments_);
    if (const PythonJson* const properties = options_.schemas.properties_of(name))
      coerce_arguments(arguments, *properties);
    calls_.push_back({std::string(name), dump_python_json(arguments)});
  }

  ParsedOutput take() { return content_.take(std::move(calls_)); }

 private:
  const FormatOptions& options_;
  EngineWhole content_;
  std::string name_;
  std::string arguments_;
  std::vector<ToolCall> calls_;
};

class Qwen3XmlFormat : public ToolFormat {
 public:
  explicit Qwen3XmlFormat(FormatOptions options) : options_(std::move(options)) {}

  ParsedOutput parse(std::string_view content) const override {
    Collector collector(options_);
    Scanner scanner(options_.drops_think_end);
    scanner.read(content, collector);
    scanner.finish(collector);
    return collector.take();
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
