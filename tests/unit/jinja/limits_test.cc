// A template may ask for anything; what it gets is bounded.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "render.h"

namespace unspool::jinja {
namespace {

constexpr auto kLimit = TemplateError::Kind::kLimit;

void expect_stopped(std::string_view source, std::string_view context = "{}") {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of(source, context).kind, kLimit) << source.substr(0, 200);
  // A fraction of a second where nothing else runs; the bound is for sanitizers on a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << source.substr(0, 200);
}

TEST(Limits, NestedLoopsStop) {
  expect_stopped(
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}"
      "{% endfor %}{% endfor %}");
  expect_stopped("{% for a in range(99999) %}{% for b in range(99999) %}{{ loop.index }}{% endfor %}{% endfor %}");
}

TEST(Limits, GrowthStops) {
  expect_stopped("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}");
  expect_stopped("{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}");
  expect_stopped("{{ 'x' * 99999999999 }}");
  expect_stopped("{{ [0] * 99999999999 }}");
  expect_stopped("{{ 'x'|center(99999999999) }}");
  expect_stopped("{{ '%099999999d' % 1 }}{% for i in range(99999) %}{{ '%099999d' % 1 }}{% endfor %}");
  expect_stopped(
      "{% set ns = namespace(s='aa') %}{% for i in range(99) %}{% set ns.s = ns.s|replace('a', 'aa') %}{% endfor %}");
}

TEST(Limits, WorkOnLargeInputsIsPaidFor) {
  const std::string context = R"({"s":")" + std::string(1 << 20, 'x') + R"("})";
  expect_stopped("{% for i in range(99999) %}{{ s|length }}{% endfor %}", context);
  expect_stopped("{% for i in range(99999) %}{% if s == s ~ '' %}{% endif %}{% endfor %}", context);
  expect_stopped("{% for i in range(99999) %}{% if 'y' in s %}{% endif %}{% endfor %}", context);
  expect_stopped("{% for i in range(99999) %}{% set x = s[7] %}{% endfor %}", context);
  expect_stopped("{% for i in range(99999) %}{% set x = s.upper() %}{% endfor %}", context);
}

TEST(Limits, DepthStops) {
  expect_stopped("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  expect_stopped("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}");
  expect_stopped("{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}");
  expect_stopped(
      "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = ns.x|map('upper') %}{% endfor %}");
  expect_stopped("{{ " + std::string(100'000, '(') + "1" + std::string(100'000, ')') + " }}");
  std::string sum = "{{ 1";
  for (int i = 0; i < 100'000; ++i) sum += " + 1";
  expect_stopped(sum + " }}");
  std::string blocks;
  for (int i = 0; i < 100'000; ++i) blocks += "{% if 1 %}";
  expect_stopped(blocks);
}

TEST(Limits, OutputStops) {
  EXPECT_EQ(error_of("{% for i in range(1000) %}0123456789{% endfor %}", "{}", {.max_output_bytes = 999}).kind, kLimit);
}

TEST(Limits, RangesAreAsLargeAsTheSandboxAllows) {
  EXPECT_EQ(render("{{ range(100001) }}"),
            "error: line 1: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
}

TEST(Limits, ALongConversationFits) {
  std::string context = R"({"messages":[)";
  for (int i = 0; i < 5000; ++i) context += R"({"role":"user","content":"some words"},)";
  context.back() = ']';
  const auto text = try_render(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n' }}{% endfor %}",
      context + "}");
  ASSERT_TRUE(text.ok()) << text.error().describe();
}

}  // namespace
}  // namespace unspool::jinja
