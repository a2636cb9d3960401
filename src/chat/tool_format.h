// One way of writing calls of tools into a text: what the parsers of --tool-call-parser have in common.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/output_parser.h"
#include "chat/python_json.h"

namespace unspool::chat {

// A request's tools, as far as a format needs them: for each, its name and parameters.properties.
struct ToolSchemas {
  struct Tool {
    std::string name;
    PythonJson properties;  // an object, or null where there are none
  };
  std::vector<Tool> tools;

  static ToolSchemas read(const JsonValue& tools);
  // Of the first tool of that name; null where there are no properties.
  const PythonJson* properties_of(std::string_view name) const;
};

// What a format is made for.
struct FormatOptions {
  ToolSchemas schemas;
  bool wants_calls = true;
  bool is_forced = false;        // the choice is "required" or a named tool
  bool drops_think_end = false;  // a reasoning parser is there, too
};

// One choice's content as it streams: everything after the reasoning.
class ToolStream {
 public:
  virtual ~ToolStream() = default;
  // Appends to `out` what `text` settles.
  virtual void read(std::string_view text, OutputDelta& out) = 0;
  virtual void finish(OutputDelta& out) = 0;
};

// Immutable; may be used from several threads at once.
class ToolFormat {
 public:
  virtual ~ToolFormat() = default;
  // Content and calls of a whole content.
  virtual ParsedOutput parse(std::string_view content) const = 0;
  virtual std::unique_ptr<ToolStream> stream() const = 0;
  // The format's markup is no content even where no calls are wanted.
  virtual bool hides_markup() const { return false; }
};

// Finds one literal in a text that comes byte by byte. Its first byte must not occur in it again, by which there is
// never more than one beginning to look at.
class TagMatcher {
 public:
  explicit TagMatcher(std::string_view tag) : tag_(tag) {}

  // Appends to `plain` what turned out to be no part of the tag. True when `c` completes it.
  bool push(char c, std::string& plain) {
    if (c == tag_[matched_]) {
      if (++matched_ < tag_.size()) return false;
      matched_ = 0;
      return true;
    }
    plain.append(tag_.substr(0, matched_));
    matched_ = c == tag_[0] ? 1 : 0;
    if (matched_ == 0) plain += c;
    return false;
  }
  // What is held, since it may yet become the tag.
  std::string_view held() const { return tag_.substr(0, matched_); }

 private:
  std::string_view tag_;
  size_t matched_ = 0;
};

void append_content(OutputDelta& out, std::string_view text);
void append_name(OutputDelta& out, int index, std::string name);
// Arguments that follow others of the same call within a delta are one entry with them; a name is one of its own.
void append_arguments(OutputDelta& out, int index, std::string_view text);

// str.strip() would leave nothing of it.
bool is_blank(std::string_view text);
// str.strip(); texts that are not UTF-8 lose ASCII's spaces alone.
std::string_view strip(std::string_view text);
bool is_ascii_space(char c);  // of str.isspace

std::unique_ptr<const ToolFormat> make_hermes_format();
std::unique_ptr<const ToolFormat> make_llama_json_format();
std::unique_ptr<const ToolFormat> make_mistral_format(FormatOptions options);
// The format of tokenizers that have no [ARGS]: an array of JSON after the marker.
std::unique_ptr<const ToolFormat> make_mistral_array_format(FormatOptions options);
std::unique_ptr<const ToolFormat> make_qwen3_xml_format(FormatOptions options);
std::unique_ptr<const ToolFormat> make_pythonic_format();
// What grammars make of a forced call for formats that have none of their own: the arguments of the named function
// alone, or a list of {"name": ..., "parameters": ...}.
std::unique_ptr<const ToolFormat> make_named_format(std::string function_name);
std::unique_ptr<const ToolFormat> make_required_format();

}  // namespace unspool::chat
