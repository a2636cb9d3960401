#include "jinja/template.h"

#include <array>
#include <ctime>

#include "jinja/ast.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"
#include "jinja/resolver.h"
#include "unicode/utf8.h"

namespace unspool::jinja {

Template::Template(std::string source, std::unique_ptr<SyntaxTree> tree)
    : source_(std::move(source)), tree_(std::move(tree)) {}
Template::~Template() = default;

TemplateResult<std::unique_ptr<const Template>> Template::parse(std::string_view source) {
  if (!unicode::is_valid(source)) {
    return TemplateError{TemplateError::Kind::kSyntax, "the template is not valid UTF-8", 0};
  }
  try {
    auto tree = std::make_unique<SyntaxTree>(jinja::parse(source));
    resolve_names(*tree);
    return std::unique_ptr<const Template>(new Template(std::string(source), std::move(tree)));
  } catch (Fault& fault) {
    return std::move(fault.error);
  }
}

TemplateResult<Text> Template::render(const Variables& variables, const Clock& clock, const Limits& limits) const {
  Interpreter interpreter(*tree_, variables, limits, clock);
  try {
    return interpreter.render();
  } catch (Fault& fault) {
    if (fault.error.line == 0) fault.error.line = interpreter.line();
    return std::move(fault.error);
  }
}

const std::vector<std::string>& Template::undeclared() const {
  return tree_->undeclared;
}

Clock local_clock() {
  return [](const std::string& format) {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    std::array<char, 1024> buffer{};
    // A longer text than fits is none, as is an empty format.
    return std::string(buffer.data(), std::strftime(buffer.data(), buffer.size(), format.c_str(), &local));
  };
}

}  // namespace unspool::jinja
