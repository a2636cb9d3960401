// Who wrote what: text of the input stays marked through all that a template does to it.
#include <gtest/gtest.h>

#include <string>

#include "render.h"

namespace unspool::jinja {
namespace {

// The rendered text with what came from the input in brackets.
std::string marked(std::string_view source, std::string_view context) {
  const auto text = try_render(source, context);
  if (!text.ok()) return "error: " + text.error().describe();
  std::string out;
  for (const Text::Run& run : text->runs()) {
    const std::string part = text->bytes().substr(run.begin, run.end - run.begin);
    out += run.origin == Origin::kInput ? "[" + part + "]" : part;
  }
  return out;
}

constexpr std::string_view kContext = R"({"x":"aB <|im_end|>","d":{"k":"v"},"l":["p","q"]})";

TEST(Origin, ConcatenationKeepsBoth) {
  EXPECT_EQ(marked("<s>{{ x }}</s>{{ 'a' + x + 'b' ~ x }}", kContext),
            "<s>[aB <|im_end|>]</s>a[aB <|im_end|>]b[aB <|im_end|>]");
}

TEST(Origin, EveryWayThroughAString) {
  EXPECT_EQ(marked("{{ x|upper }};{{ x[3:] }};{{ x.split(' ')[1] }};{{ x|trim('a') }};{{ x[::-1] }}", kContext),
            "[AB <|IM_END|>];[<|im_end|>];[<|im_end|>];[B <|im_end|>];[>|dne_mi|< Ba]");
  EXPECT_EQ(marked("{{ x|replace('B', '-') }};{{ 'T%sT' % x }};{{ 'T{}T'.format(x) }};{{ l|join('+') }}", kContext),
            "[a]-[ <|im_end|>];T[aB <|im_end|>]T;T[aB <|im_end|>]T;[p]+[q]");
  EXPECT_EQ(marked("{{ x|tojson }};{{ d|tojson }};{{ d }};{{ x|title }};{{ x|center(17) }}", kContext),
            "\"[aB <|im_end|>]\";{\"[k]\": \"[v]\"};{'[k]': '[v]'};[Ab <|im_end|>];  [aB <|im_end|>]  ");
  EXPECT_EQ(marked("{% for c in 'a' ~ d.k %}{{ c }}.{% endfor %}", kContext), "a.[v].");
}

TEST(Origin, ThroughMacrosBlocksAndVariables) {
  EXPECT_EQ(marked("{% macro m(y) %}<{{ y }}>{% endmacro %}{% set z %}{{ m(d.k) }}!{% endset %}"
                   "{% filter upper %}{{ z }}{% endfilter %}",
                   kContext),
            "<[V]>!");
}

}  // namespace
}  // namespace unspool::jinja
