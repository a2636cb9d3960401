#include <gtest/gtest.h>

#include "render.h"

namespace unspool::jinja {
namespace {

TEST(Syntax, TrimBlocksTakesTheNewlineAfterATagAndLstripTheIndentationBefore) {
  EXPECT_EQ(render("a\n  {% if true %}\n b\n  {% endif %}\nc"), "a\n b\nc");
  EXPECT_EQ(render("  {{ 1 }}\n"), "  1");
  EXPECT_EQ(render("a {% if true %} b{% endif %}"), "a  b");
}

TEST(Syntax, SignsDecideAboutSpace) {
  EXPECT_EQ(render("a \n {%- if true -%} \n b {%- endif %}"), "ab");
  EXPECT_EQ(render("  {%+ if true +%}\nb{% endif %}"), "  \nb");
  EXPECT_EQ(render("a {{- 1 -}} b"), "a1b");
  EXPECT_EQ(render("a {#- x -#} b"), "ab");
}

TEST(Syntax, RawIsNotRead) {
  EXPECT_EQ(render("{% raw %}{{ x }}{% if %}{% endraw %}"), "{{ x }}{% if %}");
}

TEST(Syntax, OneNewlineAtTheEndIsDropped) {
  EXPECT_EQ(render("a\n\n"), "a\n");
  EXPECT_EQ(render("a\r\nb\r"), "a\nb");
}

TEST(Syntax, StringsHavePythonsEscapes) {
  EXPECT_EQ(render(R"({{ 'a\n\x41\u00e9\\\'"' }})"), "a\nA\xC3\xA9\\'\"");
  EXPECT_EQ(render(R"({{ 'a' "b" }})"), "ab");
  EXPECT_EQ(render(R"({{ '\d' }})"), "\\d");
}

TEST(Syntax, OperatorsBindAsInJinja) {
  EXPECT_EQ(render("{{ 2 ** 3 ** 2 }}"), "64");  // from the left, unlike Python
  EXPECT_EQ(render("{{ -1|abs }}"), "1");
  EXPECT_EQ(render("{{ 1 ~ 2 * 3 }}"), "16");
  EXPECT_EQ(render("{{ not 1 == 2 }}"), "True");
  EXPECT_EQ(render("{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}"), "TrueFalse");
  EXPECT_EQ(render("{{ 'a' if false }}|{{ 'a' if false else 'b' }}"), "|b");
  EXPECT_EQ(render("{{ x is not defined and 1 is odd }}"), "True");
}

TEST(Syntax, ErrorsNameTheLineAndWhatWasExpected) {
  EXPECT_EQ(render("\n{{ 1 + }}"), "error: line 2: unexpected 'end of print statement'");
  EXPECT_EQ(render("{% if a"), "error: line 1: unexpected end of template, expected 'end of statement block'.");
  EXPECT_EQ(render("\n\n{% endfor %}"), "error: line 3: Encountered unknown tag 'endfor'.");
  EXPECT_EQ(render("{% for x in y %}\n{% endif %}"),
            "error: line 2: Encountered unknown tag 'endif'. Jinja was looking for the following tags: 'endfor' or "
            "'else'. The innermost block that needs to be closed is 'for'.");
  EXPECT_EQ(render("{{ 'a'|nope }}"), "error: line 1: No filter named 'nope'.");
  EXPECT_EQ(render("{{ a is nope }}"), "error: line 1: No test named 'nope'.");
  EXPECT_EQ(render("{% break %}"), "error: line 1: 'break' outside loop");
  EXPECT_EQ(render("{# a"), "error: line 1: Missing end of comment tag");
  EXPECT_EQ(render("{{ (1 }}"), "error: line 1: unexpected '}', expected ')'");
  EXPECT_EQ(error_of("{{ 1 + }}").kind, TemplateError::Kind::kSyntax);
}

TEST(Syntax, AnUnknownFilterInABranchIsFoundWhenItIsReached) {
  EXPECT_EQ(render("{% if false %}{{ 1|nope }}{% endif %}ok"), "ok");
  EXPECT_EQ(render("{% if true %}{{ 1|nope }}{% endif %}"), "error: line 1: No filter named 'nope' found.");
}

TEST(Syntax, InvalidUtf8IsRefused) {
  EXPECT_EQ(error_of("a\xFFz").kind, TemplateError::Kind::kSyntax);
}

}  // namespace
}  // namespace unspool::jinja
