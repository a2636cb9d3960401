// A Jinja template under the environment that transformers gives to chat templates. See docs/chat-templates.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/budget.h"
#include "jinja/template_error.h"
#include "jinja/text.h"
#include "jinja/value.h"

namespace unspool::jinja {

struct SyntaxTree;

using Variables = std::map<std::string, Value, std::less<>>;
// strftime of the current local time: time is an argument.
using Clock = std::function<std::string(const std::string& format)>;

// Immutable; render may be called from several threads at once.
class Template {
 public:
  static TemplateResult<std::unique_ptr<const Template>> parse(std::string_view source);
  ~Template();

  // The text, with the origin of each of its bytes. Bounded by `limits` in time and memory.
  TemplateResult<Text> render(const Variables& variables, const Clock& clock, const Limits& limits = {}) const;

  const std::string& source() const { return source_; }
  const SyntaxTree& tree() const { return *tree_; }
  // Names that the template reads without setting them: what it expects to be given.
  const std::vector<std::string>& undeclared() const;

 private:
  Template(std::string source, std::unique_ptr<SyntaxTree> tree);
  std::string source_;
  std::unique_ptr<SyntaxTree> tree_;
};

// The clock of this machine.
Clock local_clock();

}  // namespace unspool::jinja
