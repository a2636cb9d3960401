#include <gtest/gtest.h>

#include "render.h"

namespace unspool::jinja {
namespace {

TEST(Statements, LoopKnowsWhereItIs) {
  EXPECT_EQ(render("{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.length }}"
                   "{{ loop.previtem }}{{ loop.nextitem }}{% if not loop.last %},{% endif %}{% endfor %}"),
            "1033b,2123ac,3213b");
  EXPECT_EQ(render("{% for x in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(render("{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }};{% endfor %}"), "3;7;");
  EXPECT_EQ(render("{% for x in range(6) if x is even %}{{ loop.index }}{{ x }} {% endfor %}"), "10 22 34 ");
}

TEST(Statements, BreakAndContinue) {
  EXPECT_EQ(
      render("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}"
             "{{ x }}{% endfor %}"),
      "023");
  // jinja2 counts an iteration when its body ends, so that a break in the first leaves the loop as if it were empty.
  EXPECT_EQ(render("{% for x in [1] %}{% break %}{% else %}else{% endfor %}"), "else");
}

TEST(Statements, RecursiveLoops) {
  EXPECT_EQ(render("{% for n in t recursive %}{{ n.v }}{{ loop.depth }}({{ loop(n.c) }}){% endfor %}",
                   R"({"t":[{"v":"a","c":[{"v":"b","c":[]}]}]})"),
            "a1(b2())");
}

TEST(Statements, AssignmentsStayInTheirScope) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}"), "21");
  EXPECT_EQ(render("{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
  EXPECT_EQ(render("{% set ns = namespace(x=1) %}{% for i in [1] %}{% set ns.x = 2 %}{% endfor %}{{ ns.x }}"), "2");
  EXPECT_EQ(render("{% with x = 1, y = 2 %}{{ x + y }}{% endwith %}{{ x }}"), "3");
  // A name that the template sets anywhere at its top level is a variable of it from the start.
  EXPECT_EQ(render("{% for i in [1] %}{{ y }}{% endfor %}|{% set y = 3 %}{{ y }}", R"({"y":"given"})"), "|3");
}

TEST(Statements, SetBlocksAndFilterBlocks) {
  EXPECT_EQ(render("{% set x %} a {% endset %}[{{ x }}]"), "[ a ]");
  EXPECT_EQ(render("{% set x|trim|upper %} a {% endset %}[{{ x }}]"), "[A]");
  EXPECT_EQ(render("{% filter upper %}a{{ 'b' }}{% endfilter %}"), "AB");
}

TEST(Statements, Macros) {
  EXPECT_EQ(render("{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m(b=3) }}"),
            "1x 12 3");
  EXPECT_EQ(render("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, k=2) }}"), "(1,){'k': 2}");
  EXPECT_EQ(render("{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}"), "3210");
  EXPECT_EQ(render("{% macro m() %}<{{ caller('x') }}>{% endmacro %}{% call(v) m() %}{{ v }}!{% endcall %}"), "<x!>");
  EXPECT_EQ(render("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
            "error: line 1: macro 'm' takes not more than 1 argument(s)");
}

TEST(Statements, GenerationBlocksWriteTheirBody) {
  EXPECT_EQ(render("a{% generation %}{% set x = 1 %}b{{ x }}{%- endgeneration -%} c{{ x }}"), "ab1c");
}

TEST(Statements, BlocksSeeTheContext) {
  EXPECT_EQ(render("{% set x = 1 %}{% block b %}{{ x }}{{ y }}{% endblock %}{{ self.b() }}", R"({"y":2})"), "1212");
}

TEST(Statements, OtherTemplatesHaveNoLoader) {
  EXPECT_EQ(render("{% include 'x' %}"), "error: line 1: no loader for this environment specified");
}

}  // namespace
}  // namespace unspool::jinja
