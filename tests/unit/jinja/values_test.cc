#include <gtest/gtest.h>

#include "render.h"

namespace unspool::jinja {
namespace {

TEST(Values, PrintAsInPython) {
  EXPECT_EQ(render("{{ [1, 2.0, 'a', none, true, {'k': (1,)}] }}"), "[1, 2.0, 'a', None, True, {'k': (1,)}]");
  EXPECT_EQ(render("{{ [1e16, 1e-5, 0.1 + 0.2, 1e22, 123456.0] }}"),
            "[1e+16, 1e-05, 0.30000000000000004, 1e+22, 123456.0]");
  EXPECT_EQ(render("{{ [s] }}", R"({"s":"it's \"é\"\n\u200b"})"), R"(['it\'s "é"\n\u200b'])");
  EXPECT_EQ(render("{{ d.items() }} {{ d.keys() }}", R"({"d":{"a":1}})"), "dict_items([('a', 1)]) dict_keys(['a'])");
}

TEST(Values, Arithmetic) {
  EXPECT_EQ(render("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** -1 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }}"),
            "-4 2 3.5 0.5 -4.0 0.5");
  EXPECT_EQ(render("{{ true + 1 }} {{ 'a' * 3 }} {{ [1] + [2] }} {{ (1,) * 2 }}"), "2 aaa [1, 2] (1, 1)");
  EXPECT_EQ(render("{{ 1 / 0 }}"), "error: line 1: division by zero");
  EXPECT_EQ(render("{{ 'a' + 1 }}"), "error: line 1: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(render("{{ 18446744073709551615 * 18446744073709551615 // 18446744073709551615 }}"),
            "error: line 1: integers beyond 128 bits are not supported");
  EXPECT_EQ(render("{{ x }} {{ x|tojson }}", R"({"x":18446744073709551615})"),
            "18446744073709551615 18446744073709551615");
}

TEST(Values, EqualityAndOrder) {
  EXPECT_EQ(render("{{ 1 == 1.0 }}{{ 1 == true }}{{ [1] == (1,) }}{{ {'a': 1} == {'a': 1.0} }}"), "TrueTrueFalseTrue");
  EXPECT_EQ(render("{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ 2 in [1, 2] }}{{ 'x' not in 'abc' }}"), "TrueTrueTrueTrue");
  EXPECT_EQ(render("{{ 1 < 'a' }}"), "error: line 1: '<' not supported between instances of 'int' and 'str'");
}

TEST(Values, SlicesAndItems) {
  EXPECT_EQ(render("{{ m[::-1] }}{{ m[-1] }}{{ m[1:] }}{{ m[5] }}", R"({"m":[1,2,3]})"), "[3, 2, 1]3[2, 3]");
  EXPECT_EQ(render("{{ 'héllo'[1:3] }}{{ 'héllo'[::-2] }}{{ 'héllo'[1] }}"), "élolhé");
  EXPECT_EQ(render("{{ d.a }}{{ d['a'] }}{{ d.items is callable }}{{ d['items'] }}", R"({"d":{"a":1,"items":2}})"),
            "11True2");
}

TEST(Values, Undefined) {
  EXPECT_EQ(render("[{{ x }}][{{ x.y is defined }}]"), "error: line 1: 'x' is undefined");
  EXPECT_EQ(render("{{ d.y }}{{ d.y is undefined }}{{ x|default('z') }}{{ x|length }}{{ x == y }}", R"({"d":{}})"),
            "Truez0True");
  EXPECT_EQ(render("{{ d.y.z }}", R"({"d":{}})"), "error: line 1: 'dict object' has no attribute 'y'");
  EXPECT_EQ(render("{{ x + 1 }}"), "error: line 1: 'x' is undefined");
}

TEST(Values, TheSandboxHolds) {
  EXPECT_EQ(render("{{ ''.__class__ }}"), "");
  EXPECT_EQ(render("{{ ''.__class__.mro }}"),
            "error: line 1: access to attribute '__class__' of 'str' object is unsafe.");
  EXPECT_EQ(render("{{ [].append(1) }}"), "error: line 1: access to attribute 'append' of 'list' object is unsafe.");
  EXPECT_EQ(error_of("{% set ns = namespace(_x=1) %}").kind, TemplateError::Kind::kRuntime);
}

TEST(Values, ToJson) {
  EXPECT_EQ(render("{{ x|tojson }}", R"({"x":{"b":[1,2.0,null,true,"é<\"\n"],"a":{}}})"),
            R"({"b": [1, 2.0, null, true, "é<\"\n"], "a": {}})");
  EXPECT_EQ(render("{{ {'b': 1, 'a': [2]}|tojson(indent=2, sort_keys=true) }}"),
            "{\n  \"a\": [\n    2\n  ],\n  \"b\": 1\n}");
  EXPECT_EQ(render("{{ ['é🙂']|tojson(ensure_ascii=true, separators=(',', ':')) }}"), R"(["\u00e9\ud83d\ude42"])");
  EXPECT_EQ(render("{{ x|tojson }}"), "error: line 1: Object of type Undefined is not JSON serializable");
}

TEST(Values, Functions) {
  EXPECT_EQ(render("{{ strftime_now('%d') }} {{ range(3)|list }} {{ dict(a=1) }}"), "now:%d [0, 1, 2] {'a': 1}");
  const TemplateError raised = error_of("\n{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(raised.kind, TemplateError::Kind::kRaised);
  EXPECT_EQ(raised.describe(), "roles must alternate");
}

TEST(Values, StringMethods) {
  EXPECT_EQ(
      render("{{ 'a,b,c'.split(',', 1) }}{{ ' x '.strip() }}{{ 'xaax'.strip('x') }}{{ 'abc'.startswith(('b', 'a')) }}"),
      "['a', 'b,c']xaaTrue");
  EXPECT_EQ(
      render(
          "{{ 'ß'.upper() }}{{ 'ΑΣ'.lower() }}{{ 'a b'.title() }}{{ 'x'.join(['1', '2']) }}{{ 'aXbX'.rsplit('X') }}"),
      "SSαςA B1x2['a', 'b', '']");
  EXPECT_EQ(render("{{ '{} {x:>4} {0}'.format(1, x=2) }}"),
            "error: line 1: cannot switch from automatic field numbering to manual field specification");
  EXPECT_EQ(render("{{ '{0:.2f}|{x:>4}'.format(1.005, x='é') }} {{ '%s %05.1f %d' % ('a', 2.25, 3) }}"),
            "1.00|   é a 002.2 3");
}

TEST(Values, FiltersOfSequences) {
  EXPECT_EQ(render("{{ m|map(attribute='role')|join('-') }} {{ m|selectattr('role', 'equalto', 'b')|list }}",
                   R"({"m":[{"role":"a"},{"role":"b"}]})"),
            "a-b [{'role': 'b'}]");
  EXPECT_EQ(render("{{ ['b', 'A', 'c']|sort }}{{ {'b': 1, 'a': 2}|dictsort }}{{ [1, 1, 2]|unique|list }}"),
            "['A', 'b', 'c'][('a', 2), ('b', 1)][1, 2]");
  EXPECT_EQ(render("{{ [3, 1]|max }}{{ [1, 2]|sum }}{{ 'abc'|first }}{{ 'abc'|last }}{{ '2.7'|int }}{{ 2.5|round }}"),
            "33ac22.0");
  EXPECT_EQ(render("{{ 'a\nb'|indent(2) }}|{{ ' a '|trim }}|{{ 'abc'|replace('b', 'x') }}"), "a\n  b|a|axc");
}

TEST(Values, WordsOfATitleEndInTheirOwnSigma) {
  EXPECT_EQ(render("{{ x|title }}|{{ ['x']|title }}", R"({"x":"ΑΣ σ (ΑΣ-b'ΑΣ ΣΑ"})"), "Ασ Σ (Ασ-B'ας Σα|['x']");
  EXPECT_EQ(render("{{ [x]|title }}", R"({"x":"ΑΣ σ"})"), "['ας Σ']");
}

TEST(Values, RangesAreSearched) {
  EXPECT_EQ(render("{{ range(-1, 1, -3).count(1) }}{{ range(3).count(true) }}{{ range(3).count('a') }}"), "010");
  EXPECT_EQ(render("{{ range(3, 12, 3).index(6) }}{{ range(9, 0, -3).index(3.0) }}{{ range(9).count(2.5) }}"), "120");
  EXPECT_EQ(error_of("{{ range(3, 12, 3).index(12) }}").kind, TemplateError::Kind::kRuntime);
}

TEST(Values, CharactersOfMarkupAreStrings) {
  EXPECT_EQ(render("{{ 'a<'|safe|list }}{% for c in 'a'|safe %}{{ [c] }}{% endfor %}"), "['a', '<']['a']");
}

TEST(Values, WhatPythonDoesNotLookAtIsNoFault) {
  EXPECT_EQ(render("[{{ {'a': 1}[{}.items()] }}{{ {'a': 1}[([], 1)] }}{{ {'a': 1}[[]] }}]"), "[]");
  EXPECT_EQ(render(R"({{ 'a'|tojson(false, missing) }}{{ "é"|tojson(true, []) }})"), R"("a""\u00e9")");
  EXPECT_EQ(error_of("{{ [1]|tojson(false, []) }}").kind, TemplateError::Kind::kRuntime);
  EXPECT_EQ(render("{{ 'abc'|truncate(1e16) }}{{ 'abc'|truncate(3.5, leeway=0.0) }}"), "abcabc");
  EXPECT_EQ(error_of("{{ 'abcdefghijkl'|truncate(3.5) }}").kind, TemplateError::Kind::kRuntime);
  EXPECT_EQ(render("{{ 'abcdefghijkl'|truncate(5, true) }}"), "ab...");
}

TEST(Values, RoundWithoutAPrecisionIsAnInteger) {
  EXPECT_EQ(render("{{ 2.5|round(none) }} {{ -3.5|round(none) }} {{ true|round(none) }}"), "2 -4 1");
  EXPECT_EQ(error_of("{{ 2.5|round(none, 'floor') }}").kind, TemplateError::Kind::kRuntime);
}

TEST(Values, GeneratorsComplainWhenTheyAreUsed) {
  EXPECT_EQ(render("{% set x = [1]|map('nope') %}{% set y = [1]|slice(0) %}ok"), "ok");
  EXPECT_EQ(render("{{ [1, 2, 3]|batch(2, 0)|list }}{{ [1, 2, 3]|slice(2)|list }}"), "[[1, 2], [3, 0]][[1, 2], [3]]");
  EXPECT_EQ(render("{% set x = [1, 2]|select('odd') %}{{ x|list }}{{ x|list }}"), "[1][]");
}

}  // namespace
}  // namespace unspool::jinja
