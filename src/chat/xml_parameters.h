// <parameter=KEY>VALUE</parameter>, again and again: the arguments of a call as texts, which its schema gives types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/python_json.h"

namespace unspool::chat {

// Takes the parameters apart, byte by byte. Space is allowed inside the tags. A value ends with its closing tag or
// where the next one begins; a newline at either end of it is the template's.
class XmlParameterScanner {
 public:
  virtual ~XmlParameterScanner() = default;
  void read(std::string_view text);

 protected:
  virtual void begin(const std::string& key) = 0;
  virtual void value(std::string_view text) = 0;  // a piece of it
  virtual void end() = 0;

 private:
  enum class Part : uint8_t { kOutside, kKey, kValue };
  // How far a tag has got.
  enum class Tag : uint8_t { kNone, kOpen, kSlash, kWord, kAfterWord };

  void push(char c);
  bool push_tag(char c);
  void flush_tag();
  void plain(char c);
  void found(bool is_closing);

  Part part_ = Part::kOutside;
  Tag tag_ = Tag::kNone;
  bool is_closing_ = false;
  size_t word_matched_ = 0;
  std::string held_;  // what may be a tag
  std::string key_;
  bool at_value_start_ = false;
  bool holds_newline_ = false;
};

// The parameters that are complete, as texts.
PythonJson read_xml_parameters(std::string_view text);

// The same as a stream of JSON. A value that can only be a string goes out as it comes, any other once it is whole. Of
// two parameters of one name both are written; who reads them takes the last.
class XmlParameterStream : private XmlParameterScanner {
 public:
  // `properties` of the tool, or null. It must outlive this.
  explicit XmlParameterStream(const PythonJson* properties) : properties_(properties) {}

  void read(std::string_view text, std::string& out);
  // The call is over. A string that was cut short stays so, since it went out already.
  void finish(std::string& out);

 private:
  void begin(const std::string& key) override;
  void value(std::string_view text) override;
  void end() override;
  void write_key(const std::string& key);

  const PythonJson* properties_;
  std::string* out_ = nullptr;
  bool is_first_ = true;
  bool is_cut_ = false;  // within a string that goes out as it comes
  std::vector<std::string> types_;
  std::string key_;
  std::string value_;
};

}  // namespace unspool::chat
