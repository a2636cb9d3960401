// <tool_call>{"name": ..., "arguments": ...}</tool_call>, once for each call.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/json_progress.h"
#include "chat/python_json.h"
#include "chat/tool_format.h"

namespace unspool::chat {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";

// Finds `"name"\s*:\s*` in a text that comes byte by byte, as a regex search would: what fails is searched again from
// its second byte on. The quotes at both ends of the key are the only places where another match can begin.
class KeyFinder {
 public:
  explicit KeyFinder(std::string_view quoted_key) : key_(quoted_key) {}

  // True once, when `c` is the colon.
  bool push(char c) {
    if (matched_ == key_.size()) {
      if (c == ':') {
        matched_ = 0;
        return true;
      }
      if (is_ascii_space(c)) {
        after_space_ = true;
        return false;
      }
      restart(after_space_ ? '\0' : '"');
    }
    if (c == key_[matched_]) {
      ++matched_;
    } else {
      restart(c);
    }
    return false;
  }
  // The search goes on as if `last` was the last byte before what comes.
  void restart(char last) {
    matched_ = last == '"' ? 1 : 0;
    after_space_ = false;
  }

 private:
  std::string_view key_;
  size_t matched_ = 0;
  bool after_space_ = false;
};

// The first `"name": "..."` that names something.
class NameFinder {
 public:
  // True once, when the name is complete.
  bool push(char c) {
    switch (part_) {
      case Part::kKey:
        if (key_.push(c)) part_ = Part::kBeforeQuote;
        return false;
      case Part::kBeforeQuote:
        if (is_ascii_space(c)) return false;
        if (c == '"') {
          part_ = Part::kName;
        } else {
          part_ = Part::kKey;
          key_.restart(c);
        }
        return false;
      case Part::kName:
        if (c != '"') {
          name_ += c;
          return false;
        }
        if (!name_.empty()) {
          part_ = Part::kDone;
          return true;
        }
        part_ = Part::kKey;
        key_.restart(c);
        return false;
      case Part::kDone:
        return false;
    }
    return false;
  }
  std::string take() { return std::move(name_); }

 private:
  enum class Part : uint8_t { kKey, kBeforeQuote, kName, kDone };
  Part part_ = Part::kKey;
  KeyFinder key_{"\"name\""};
  std::string name_;
};

// What is between the tags of one call. Arguments go out as the model writes them. Whether the last brace is theirs or
// the call's is known only from the whole: it is held while the text is complete JSON.
class CallBody {
 public:
  explicit CallBody(int index) : index_(index) {}

  bool has_name() const { return has_name_; }
  // A closing tag would be a part of a string's text.
  bool in_string() const { return json_.place() == JsonProgress::Place::kString; }

  void push(char c, OutputDelta& out) {
    if (is_ascii_space(c)) {
      // Space is nothing at either end, and what it is only the next byte says.
      if (any_) spaces_ += c;
      return;
    }
    any_ = true;
    for (const char space : spaces_) push_byte(space, out);
    spaces_.clear();
    push_byte(c, out);
  }

 private:
  void push_byte(char c, OutputDelta& out) {
    json_.push(c);
    if (!has_name_ && name_.push(c)) {
      has_name_ = true;
      append_name(out, index_, name_.take());
    }
    if (in_arguments_) {
      push_argument(c);
    } else if (arguments_key_.push(c)) {
      in_arguments_ = true;
    }
    if (!has_name_) return;
    append_arguments(out, index_, ready_);
    ready_.clear();
  }

  void push_argument(char c) {
    if (is_ascii_space(c)) {
      if (any_argument_) held_ += c;
      return;
    }
    any_argument_ = true;
    held_ += c;
    if (c == '}' && json_.complete()) return;
    ready_ += held_;
    held_.clear();
  }

  int index_;
  bool any_ = false;
  std::string spaces_;
  JsonProgress json_;
  NameFinder name_;
  bool has_name_ = false;
  KeyFinder arguments_key_{"\"arguments\""};
  bool in_arguments_ = false;
  bool any_argument_ = false;
  std::string held_;
  std::string ready_;  // waits for the name
};

class HermesStream : public ToolStream {
 public:
  void read(std::string_view text, OutputDelta& out) override {
    for (const char c : text) {
      plain_.clear();
      bool is_tag = body_ ? close_.push(c, plain_) : open_.push(c, plain_);
      if (body_) {
        if (is_tag && body_->in_string()) {
          plain_ = kClose;
          is_tag = false;
        }
        for (const char byte : plain_) body_->push(byte, out);
        if (!is_tag) continue;
        // Calls are in order: behind one that never got a name none can follow.
        if (!body_->has_name()) is_stuck_ = true;
        body_.reset();
      } else {
        if (calls_ == 0) append_content(out, plain_);
        if (is_tag && !is_stuck_) body_.emplace(calls_++);
      }
    }
  }

  // What may be the beginning of a tag is lost, as in the reference.
  void finish(OutputDelta&) override {}

 private:
  TagMatcher open_{kOpen};
  TagMatcher close_{kClose};
  std::string plain_;
  std::optional<CallBody> body_;
  int calls_ = 0;
  bool is_stuck_ = false;
};

// Where the tag is that closes a call, npos if there is none: the first that is not in a string. In a call that can be
// read the reference ends at the same one; where it ends within a string it loses all calls.
size_t find_close(std::string_view content, size_t at) {
  JsonProgress json;
  for (size_t close = content.find(kClose, at); close != std::string_view::npos; close = content.find(kClose, at)) {
    while (at < close) json.push(content[at++]);
    if (json.place() != JsonProgress::Place::kString) return close;
    json.push(content[at++]);  // the tag is text
  }
  return std::string_view::npos;
}

std::optional<ToolCall> read_call(std::string_view body) {
  const auto json = parse_python_json(body);
  if (!json || !json->is_object()) return std::nullopt;
  const PythonJson* const name = json->find("name");
  const PythonJson* const arguments = json->find("arguments");
  if (name == nullptr || !name->is_string() || arguments == nullptr) return std::nullopt;
  return ToolCall{name->text, dump_python_json(*arguments)};
}

class HermesFormat : public ToolFormat {
 public:
  // One call that cannot be read makes the whole text content: nothing that the model wrote is lost.
  ParsedOutput parse(std::string_view content) const override {
    ParsedOutput out;
    out.content = content;
    const size_t first = content.find(kOpen);
    std::vector<ToolCall> calls;
    for (size_t at = first; at != std::string_view::npos; at = content.find(kOpen, at)) {
      at += kOpen.size();
      const size_t close = find_close(content, at);
      auto call = read_call(content.substr(at, close - at));
      if (!call) return out;
      calls.push_back(std::move(*call));
      if (close == std::string_view::npos) break;
      at = close + kClose.size();
    }
    if (calls.empty()) return out;
    out.tool_calls = std::move(calls);
    out.content->resize(first);
    if (is_blank(*out.content)) out.content.reset();
    return out;
  }

  std::unique_ptr<ToolStream> stream() const override { return std::make_unique<HermesStream>(); }
};

}  // namespace

std::unique_ptr<const ToolFormat> make_hermes_format() {
  return std::make_unique<HermesFormat>();
}

}  // namespace unspool::chat
