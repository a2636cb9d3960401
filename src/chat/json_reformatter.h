// JSON that comes piece by piece, written as Python's json.dumps would write it.
#pragma once

#include <string>

#include "chat/json_progress.h"

namespace unspool::chat {

// What it writes is never taken back: a number waits for its end, a surrogate for its other half. Of two members of one
// name both are written; who reads them takes the last.
class JsonReformatter {
 public:
  // Appends to `out` what `c` settles. Nothing comes of a text that is no JSON, from the byte on that shows it.
  void push(char c, std::string& out);
  // The value is over, by what follows it: only of a number is anything left.
  void finish(std::string& out) {
    if (json_.complete()) flush_number(out);
  }
  const JsonProgress& progress() const { return json_; }

 private:
  void flush_number(std::string& out);
  void push_string(JsonProgress::Place before, char c, std::string& out);
  void push_structure(char c, std::string& out);

  JsonProgress json_;
  std::string token_;   // a number or a word so far
  std::string escape_;  // one escape, or two that may be a surrogate pair
};

}  // namespace unspool::chat
