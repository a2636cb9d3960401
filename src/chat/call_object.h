// One call that is written as an object, {"name": ..., "arguments": ...}, as it streams.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "chat/json_progress.h"
#include "chat/json_reformatter.h"
#include "chat/output_parser.h"

namespace unspool::chat {

// Its name goes out when it is there, its arguments from then on.
class CallObject {
 public:
  enum class Style : uint8_t {
    kReformatted,  // as json.dumps writes them; "parameters" is another name for them
    kParameters,   // as the model wrote them, under "parameters" alone
    kVerbatim,  // as the model wrote them; a string is taken for the text of them; a call has both, if it must be empty
  };
  CallObject(int index, Style style) : index_(index), style_(style) {}

  void push(char c, OutputDelta& out);
  bool is_over() const { return json_.place() == JsonProgress::Place::kEnd; }
  // Nothing that could be read comes of it any more.
  bool failed() const { return has_both_ || json_.failed(); }

 private:
  enum class Member : uint8_t { kNone, kName, kArguments, kOther };

  void begin_value();
  void push_value(char c, OutputDelta& out);
  void push_name(char c, OutputDelta& out);
  void push_argument(char c);
  void end_value();
  void complete(OutputDelta& out);

  int index_;
  Style style_;
  JsonProgress json_;
  Member member_ = Member::kNone;
  std::string token_;  // of a key, of the name's value, or of arguments that wait for their end
  bool has_name_ = false;
  std::string arguments_key_;
  bool has_both_ = false;
  bool has_arguments_ = false;
  JsonReformatter reformatter_;
  std::string ready_;  // waits for the name
};

}  // namespace unspool::chat
