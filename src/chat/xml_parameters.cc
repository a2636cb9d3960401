#include "chat/xml_parameters.h"

#include <map>

#include "chat/schema_types.h"
#include "chat/tool_format.h"

namespace unspool::chat {
namespace {

constexpr std::string_view kWord = "parameter";

class Collector : public XmlParameterScanner {
 public:
  PythonJson take() { return std::move(object_); }

 private:
  void begin(const std::string& key) override {
    key_ = key;
    value_.clear();
  }
  void value(std::string_view text) override { value_ += text; }
  void end() override {
    const auto [position, is_new] = positions_.emplace(key_, object_.keys.size());
    if (is_new) {
      object_.keys.push_back(key_);
      object_.items.push_back(PythonJson::string(value_));
    } else {
      object_.items[position->second].text = value_;
    }
  }

  PythonJson object_{PythonJson::Kind::kObject, {}, {}, {}};
  std::map<std::string, size_t> positions_;
  std::string key_;
  std::string value_;
};

}  // namespace

void XmlParameterScanner::read(std::string_view text) {
  for (const char c : text) push(c);
}

void XmlParameterScanner::push(char c) {
  if (part_ == Part::kKey) {
    if (c == '>') {
      part_ = Part::kValue;
      at_value_start_ = true;
      holds_newline_ = false;
      begin(key_);
    } else if (!key_.empty() || !is_ascii_space(c)) {
      key_ += c;
    }
    return;
  }
  if (c == '<') {
    flush_tag();
    tag_ = Tag::kOpen;
    held_ = c;
    return;
  }
  if (tag_ == Tag::kNone) return plain(c);
  held_ += c;
  if (push_tag(c)) return;
  flush_tag();
}

// False where no tag goes on like this.
bool XmlParameterScanner::push_tag(char c) {
  if (tag_ == Tag::kWord) {
    if (c != kWord[word_matched_]) return false;
    if (++word_matched_ == kWord.size()) tag_ = Tag::kAfterWord;
    return true;
  }
  if (is_ascii_space(c)) return true;
  if (tag_ == Tag::kAfterWord) {
    if (c != (is_closing_ ? '>' : '=')) return false;
    found(is_closing_);
    return true;
  }
  if (tag_ == Tag::kOpen && c == '/') {
    tag_ = Tag::kSlash;
    return true;
  }
  if (c != kWord[0]) return false;
  is_closing_ = tag_ == Tag::kSlash;
  tag_ = Tag::kWord;
  word_matched_ = 1;
  return true;
}

void XmlParameterScanner::flush_tag() {
  tag_ = Tag::kNone;
  for (const char c : held_) plain(c);
  held_.clear();
}

void XmlParameterScanner::plain(char c) {
  if (part_ != Part::kValue) return;
  if (c == '\n' && at_value_start_) {
    at_value_start_ = false;
    return;
  }
  at_value_start_ = false;
  if (holds_newline_) value("\n");
  holds_newline_ = c == '\n';
  if (!holds_newline_) value(std::string_view(&c, 1));
}

void XmlParameterScanner::found(bool is_closing) {
  if (is_closing && part_ != Part::kValue) return flush_tag();
  tag_ = Tag::kNone;
  held_.clear();
  if (part_ == Part::kValue) end();
  part_ = is_closing ? Part::kOutside : Part::kKey;
  key_.clear();
}

PythonJson read_xml_parameters(std::string_view text) {
  Collector collector;
  collector.read(text);
  return collector.take();
}

void XmlParameterStream::read(std::string_view text, std::string& out) {
  out_ = &out;
  XmlParameterScanner::read(text);
}

void XmlParameterStream::finish(std::string& out) {
  if (is_cut_) return;
  out += is_first_ ? "{}" : "}";
}

void XmlParameterStream::write_key(const std::string& key) {
  *out_ += is_first_ ? "{\"" : ", \"";
  is_first_ = false;
  append_json_characters(*out_, key);
  *out_ += "\": ";
}

void XmlParameterStream::begin(const std::string& key) {
  key_ = key;
  value_.clear();
  types_.clear();
  const PythonJson* const schema = properties_ == nullptr ? nullptr : properties_->find(key);
  if (schema != nullptr && schema->is_object()) types_ = types_of_schema(*schema);
  const bool is_string = schema != nullptr && types_.size() <= 1 && (types_.empty() || types_.front() == "string");
  is_cut_ = properties_ == nullptr || is_string;
  if (!is_cut_) return;
  write_key(key);
  *out_ += '"';
}

void XmlParameterStream::value(std::string_view text) {
  if (is_cut_) {
    append_json_characters(*out_, text);
  } else {
    value_ += text;
  }
}

void XmlParameterStream::end() {
  if (is_cut_) {
    *out_ += '"';
    is_cut_ = false;
    return;
  }
  write_key(key_);
  *out_ += dump_python_json(types_.empty() ? PythonJson::string(value_) : coerce_text(value_, types_));
}

}  // namespace unspool::chat
