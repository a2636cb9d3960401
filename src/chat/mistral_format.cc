// [TOOL_CALLS]NAME{...} or [TOOL_CALLS]NAME[ARGS]{...}, once for each call.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/python_json.h"
#include "chat/schema_types.h"
#include "chat/tagged_calls.h"

namespace unspool::chat {
namespace {

constexpr std::string_view kCall = "[TOOL_CALLS]";
constexpr std::string_view kArgs = "[ARGS]";
constexpr std::array kTags{kCall, kArgs};

class Scanner : public TaggedScanner {
 public:
  Scanner() : TaggedScanner(kTags) {}

 private:
  void byte(char c, CallSink& sink) override {
    if (c == '{' && part_ == Part::kName) part_ = Part::kArguments;
    plain(std::string_view(&c, 1), sink);
  }

  void found(std::string_view tag, CallSink& sink) override {
    const bool is_call = tag == kCall;
    if (part_ == Part::kName && !is_call) {
      part_ = Part::kArguments;
      return;
    }
    if (!is_call || part_ == Part::kName) return plain(tag, sink);
    if (part_ == Part::kArguments) sink.end_call();
    begin(Part::kName, sink);
  }
};

class MistralStream : public TaggedStream {
 public:
  explicit MistralStream(bool wants_calls) : TaggedStream(std::make_unique<Scanner>(), wants_calls) {}

 private:
  void begin_call() override {
    TaggedStream::begin_call();
    has_name_ = false;
  }
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

  bool has_name_ = false;
};

class Collector : public TaggedCollector {
 public:
  explicit Collector(const FormatOptions& options) : TaggedCollector(options) {}

 private:
  std::optional<ToolCall> call(const std::string& name, const std::string& arguments) const override {
    if (name.empty() && arguments.empty()) return std::nullopt;
    const std::string_view stripped = strip(name);
    return ToolCall{std::string(stripped), first_value(stripped, strip(arguments))};
  }

  // The first JSON value, as it is written, but for members whose types are not the schema's.
  std::string first_value(std::string_view name, std::string_view text) const {
    if (text.empty()) return "{}";
    auto value = decode_python_json(text);
    if (!value) return std::string(text);
    const PythonJson* const properties = options_.schemas.properties_of(name);
    if (properties != nullptr && value->value.is_object() && coerce_arguments(value->value, *properties)) {
      return dump_python_json(value->value);
    }
    return std::string(text.substr(0, value->size));
  }
};

class MistralFormat : public ToolFormat {
 public:
  explicit MistralFormat(FormatOptions options) : options_(std::move(options)) {}

  ParsedOutput parse(std::string_view content) const override {
    Scanner scanner;
    return Collector(options_).collect(content, scanner);
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
