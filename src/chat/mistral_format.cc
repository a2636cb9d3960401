// [TOOL_CALLS]NAME{...} or [TOOL_CALLS]NAME[ARGS]{...}, once for each call.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/engine_content.h"
#include "chat/python_json.h"
#include "chat/schema_types.h"
#include "chat/tool_format.h"

namespace unspool::chat {
namespace {

constexpr std::string_view kCall = "[TOOL_CALLS]";
constexpr std::string_view kArgs = "[ARGS]";

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
  void read(std::string_view text, Sink& sink) {
    for (const char c : text) push(c, sink);
  }
  void finish(Sink& sink) {
    plain(std::exchange(held_, {}), sink);
    if (part_ != Part::kContent) sink.end_call();
    part_ = Part::kContent;
  }

 private:
  enum class Part : uint8_t { kContent, kName, kArguments };

  void push(char c, Sink& sink) {
    if (c == '[') {
      plain(held_, sink);
      held_ = c;
      return;
    }
    if (!held_.empty()) {
      held_ += c;
      if (kCall.starts_with(held_) || kArgs.starts_with(held_)) {
        if (held_.size() < kArgs.size() || (held_ != kArgs && held_ != kCall)) return;
        const std::string tag = std::exchange(held_, {});
        return found(tag, sink);
      }
      const std::string text = std::exchange(held_, {});
      plain(std::string_view(text).substr(0, text.size() - 1), sink);
    }
    if (c == '{' && part_ == Part::kName) part_ = Part::kArguments;
    plain(std::string_view(&c, 1), sink);
  }

  void plain(std::string_view text, Sink& sink) {
    if (text.empty()) return;
    if (part_ == Part::kContent) sink.content(text);
    if (part_ == Part::kName) sink.name(text);
    if (part_ == Part::kArguments) sink.arguments(text);
  }

  void found(std::string_view tag, Sink& sink) {
    const bool is_call = tag == kCall;
    if (part_ == Part::kName && !is_call) {
      part_ = Part::kArguments;
      return;
    }
    if (!is_call || part_ == Part::kName) return plain(tag, sink);
    if (part_ == Part::kArguments) sink.end_call();
    part_ = Part::kName;
    sink.begin_call();
  }

  Part part_ = Part::kContent;
  std::string held_;
};

class MistralStream : public ToolStream, private Sink {
 public:
  explicit MistralStream(bool wants_calls) : wants_calls_(wants_calls) {}

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
    if (wants_calls_) content_.begin_call();
    ++index_;
    name_.clear();
    has_name_ = false;
  }
  void name(std::string_view text) override { name_ += text; }
  // As the model writes them, and whatever it writes behind them.
  void arguments(std::string_view text) override {
    send_name();
    append_arguments(*out_, index_, text);
  }
  void end_call() override { send_name(); }

  // A call whose name is missing is sent without one, so that it is seen.
  void send_name() {
    if (has_name_) return;
    has_name_ = true;
    append_name(*out_, index_, std::string(strip(name_)));
  }

  bool wants_calls_;
  Scanner scanner_;
  OutputDelta* out_ = nullptr;
  EngineContent content_;
  int index_ = -1;
  std::string name_;
  bool has_name_ = false;
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
    if (name_.empty() && arguments_.empty()) return;
    const std::string_view name = strip(name_);
    calls_.push_back({std::string(name), first_value(name)});
  }

  ParsedOutput take() { return content_.take(std::move(calls_)); }

 private:
  // The first JSON value, as it is written, but for members whose types are not the schema's.
  std::string first_value(std::string_view name) const {
    const std::string_view text = strip(arguments_);
    if (text.empty()) return "{}";
    auto value = decode_python_json(text);
    if (!value) return std::string(text);
    const PythonJson* const properties = options_.schemas.properties_of(name);
    if (properties != nullptr && value->value.is_object() && coerce_arguments(value->value, *properties)) {
      return dump_python_json(value->value);
    }
    return std::string(text.substr(0, value->size));
  }

  const FormatOptions& options_;
  EngineWhole content_;
  std::string name_;
  std::string arguments_;
  std::vector<ToolCall> calls_;
};

class MistralFormat : public ToolFormat {
 public:
  explicit MistralFormat(FormatOptions options) : options_(std::move(options)) {}

  ParsedOutput parse(std::string_view content) const override {
    Collector collector(options_);
    Scanner scanner;
    scanner.read(content, collector);
    scanner.finish(collector);
    return collector.take();
  }
  std::unique_ptr<ToolStream> stream() const override { return std::make_unique<MistralStream>(options_.wants_calls); }
  bool hides_markup() const override { return true; }

 private:
  FormatOptions options_;
};

}  // namespace

std::unique_ptr<const ToolFormat> make_mistral_format(FormatOptions options) {
  return std::make_unique<MistralFormat>(std::move(options));
}

}  // namespace unspool::chat
