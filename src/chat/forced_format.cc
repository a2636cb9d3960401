// Calls that a grammar of JSON forces, where a format has no grammar of its own.
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

// The text is the arguments.
class NamedStream : public ToolStream {
 public:
  explicit NamedStream(const std::string& function_name) : function_name_(function_name) {}

  void read(std::string_view text, OutputDelta& out) override {
    if (text.empty()) return;
    if (!std::exchange(has_name_, true)) append_name(out, 0, function_name_);
    append_arguments(out, 0, text);
  }
  void finish(OutputDelta&) override {}

 private:
  const std::string& function_name_;
  bool has_name_ = false;
};

class NamedFormat : public ToolFormat {
 public:
  explicit NamedFormat(std::string function_name) : function_name_(std::move(function_name)) {}

  ParsedOutput parse(std::string_view content) const override {
    ParsedOutput out;
    if (!is_blank(content)) out.tool_calls.push_back({function_name_, std::string(content)});
    return out;
  }
  std::unique_ptr<ToolStream> stream() const override { return std::make_unique<NamedStream>(function_name_); }

 private:
  std::string function_name_;
};

class RequiredStream : public ToolStream {
 public:
  void read(std::string_view text, OutputDelta& out) override {
    for (const char c : text) {
      if (call_) {
        call_->push(c, out);
        is_stuck_ = is_stuck_ || call_->failed();
        if (call_->is_over()) call_.reset();
      } else if (is_stuck_) {
        return;
      } else if (c == '{' && is_open_) {
        call_.emplace(calls_++, CallObject::Style::kParameters);
        call_->push(c, out);
      } else if (c == '[' && !is_open_) {
        is_open_ = true;
      } else if (!is_ascii_space(c) && (c != ',' || !is_open_)) {
        is_stuck_ = true;
      }
    }
  }
  void finish(OutputDelta&) override {}

 private:
  bool is_open_ = false;
  bool is_stuck_ = false;
  int calls_ = 0;
  std::optional<CallObject> call_;
};

class RequiredFormat : public ToolFormat {
 public:
  // A list that is no list of calls is none at all, and no content either.
  ParsedOutput parse(std::string_view content) const override {
    ParsedOutput out;
    const auto list = parse_python_json(content);
    if (!list || !list->is_array()) return out;
    for (const PythonJson& item : list->items) {
      const PythonJson* const name = item.find("name");
      const PythonJson* const parameters = item.find("parameters");
      const bool has_parameters = parameters != nullptr && parameters->kind != PythonJson::Kind::kNull;
      if (name == nullptr || !name->is_string() || (has_parameters && !parameters->is_object())) return {};
      out.tool_calls.push_back({name->text, has_parameters ? dump_python_json(*parameters) : "null"});
    }
    return out;
  }
  std::unique_ptr<ToolStream> stream() const override { return std::make_unique<RequiredStream>(); }
};

}  // namespace

std::unique_ptr<const ToolFormat> make_named_format(std::string function_name) {
  return std::make_unique<NamedFormat>(std::move(function_name));
}

std::unique_ptr<const ToolFormat> make_required_format() {
  return std::make_unique<RequiredFormat>();
}

}  // namespace unspool::chat
