#include "chat/call_object.h"

#include "chat/python_json.h"
#include "chat/tool_format.h"

namespace unspool::chat {

using Place = JsonProgress::Place;

void CallObject::push(char c, OutputDelta& out) {
  const Place before = json_.place();
  const bool at_top = json_.depth() == 1;
  json_.push(c);
  if (json_.failed()) return;
  const bool ends_member =
      at_top && (before == Place::kAfterValue || before == Place::kNumber) && (c == ',' || c == '}');
  if (at_top && before == Place::kColon && c == ':') {
    begin_value();
  } else if (ends_member) {
    end_value();
  } else if (member_ != Member::kNone) {
    push_value(c, out);
  } else if (at_top && (c == '"' || !token_.empty())) {
    token_ += c;
  }
  if (is_over() && style_ == Style::kVerbatim) complete(out);
  if (!has_name_ || failed()) return;
  append_arguments(out, index_, ready_);
  ready_.clear();
}

void CallObject::begin_value() {
  const auto key = parse_python_json(token_);
  token_.clear();
  member_ = Member::kOther;
  if (!key) return;
  if (key->text == "name") {
    member_ = Member::kName;
  } else if ((key->text == "arguments" && style_ != Style::kParameters) ||
             (key->text == "parameters" && style_ != Style::kVerbatim)) {
    // Both of its names at once are what the reference gives up on.
    has_both_ = !arguments_key_.empty() && arguments_key_ != key->text;
    if (arguments_key_.empty()) member_ = Member::kArguments;
    arguments_key_ = key->text;
  }
}

void CallObject::push_value(char c, OutputDelta& out) {
  if (member_ == Member::kName && !has_name_) push_name(c, out);
  if (member_ != Member::kArguments) return;
  if (style_ == Style::kReformatted) {
    reformatter_.push(c, ready_);
  } else {
    push_argument(c);
  }
}

void CallObject::push_name(char c, OutputDelta& out) {
  token_ += c;
  if (json_.place() != Place::kAfterValue || json_.depth() != 1) return;
  const auto name = parse_python_json(token_);
  if (!name || !name->is_string() || name->text.empty()) return;
  has_name_ = true;
  append_name(out, index_, name->text);
}

// An object or a list goes out at once. Of anything else only the end says what it is.
void CallObject::push_argument(char c) {
  if (is_ascii_space(c) && token_.empty() && json_.depth() == 1) return;
  const bool is_container = has_arguments_ || c == '{' || c == '[';
  if (!is_container || !token_.empty()) {
    token_ += c;
    return;
  }
  if (has_arguments_ && json_.depth() == 1 && is_ascii_space(c)) return;
  has_arguments_ = true;
  ready_ += c;
}

void CallObject::end_value() {
  if (member_ == Member::kArguments) {
    if (style_ == Style::kReformatted) {
      reformatter_.finish(ready_);
    } else if (const auto value = parse_python_json(token_)) {
      has_arguments_ = value->kind != PythonJson::Kind::kNull;
      if (has_arguments_) ready_ = value->is_string() ? value->text : dump_python_json(*value);
    }
  }
  token_.clear();
  member_ = Member::kNone;
}

void CallObject::complete(OutputDelta& out) {
  if (!has_name_ && arguments_key_.empty()) return;
  if (!has_name_) append_name(out, index_, "");
  has_name_ = true;
  if (!has_arguments_) ready_ = "{}";
  has_arguments_ = true;
}

}  // namespace unspool::chat
