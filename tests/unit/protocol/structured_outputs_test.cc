// From the fields of a request to the grammar that its output must match. The words of refusals are vLLM 0.32.0's.
#include "protocol/structured_outputs.h"

#include <gtest/gtest.h>

#include "fake_tokenizer.h"
#include "protocol/schema_limits.h"

namespace unspool {
namespace {

ServingConfig config() {
  ServingConfig config;
  config.tokenizer = std::make_shared<FakeTokenizer>();
  config.no_structured_outputs.clear();
  return config;
}

struct Outcome {
  std::string refusal;  // the first of: validators, field errors, checks
  std::shared_ptr<const StructuredOutputs> asked;
};

Outcome read(const std::string& body, const ServingConfig& config = unspool::config(),
             ResponseFormats formats = ResponseFormats::kRead) {
  const auto document = JsonDocument::parse(body);
  EXPECT_TRUE(document.ok()) << body;
  const JsonValue root = document->root();
  if (auto error = check_structured_outputs_count(root)) return {error->message, nullptr};
  if (auto error = check_response_format(root)) return {error->message, nullptr};
  FieldErrors errors;
  FieldReader reader(root, "body", errors);
  StructuredOutputsFields fields;
  read_structured_outputs(reader, fields, formats);
  if (fields.error) return {fields.error->message, nullptr};
  if (!errors.empty()) return {errors.to_api_error().message, nullptr};
  if (fields.conflict) return {fields.conflict->message, nullptr};
  if (auto error = check_constraint(fields, config)) return {error->message, nullptr};
  return {"", to_structured_outputs(fields, config)};
}

GrammarSpec grammar(const std::string& fields) {
  const Outcome outcome = read(R"({"structured_outputs":{)" + fields + "}}");
  EXPECT_EQ(outcome.refusal, "") << fields;
  return outcome.asked ? outcome.asked->grammar : GrammarSpec{};
}

std::string refusal(const std::string& fields) {
  return read(R"({"structured_outputs":{)" + fields + "}}").refusal;
}

TEST(StructuredOutputs, EveryKindIsAGrammar) {
  EXPECT_EQ(read("{}").asked, nullptr);
  EXPECT_EQ(read(R"({"structured_outputs":null,"response_format":null})").asked, nullptr);
  EXPECT_EQ(grammar(R"("json":{"type" : "null"})"), (GrammarSpec{GrammarKind::kJsonSchema, R"({"type":"null"})"}));
  EXPECT_EQ(grammar(R"("json":"{\"type\" : \"null\"}")"),
            (GrammarSpec{GrammarKind::kJsonSchema, R"({"type" : "null"})"}));
  EXPECT_EQ(grammar(R"("json_object":true)"), (GrammarSpec{GrammarKind::kJsonSchema, R"({"type":"object"})"}));
  EXPECT_EQ(grammar(R"("regex":"a+")"), (GrammarSpec{GrammarKind::kRegex, "a+"}));
  EXPECT_EQ(grammar(R"("regex":"")"), (GrammarSpec{GrammarKind::kRegex, ""}));
  EXPECT_EQ(grammar(R"("grammar":"root ::= \"a\"")"), (GrammarSpec{GrammarKind::kEbnf, "root ::= \"a\""}));
  EXPECT_EQ(grammar(R"("grammar":"start: \"a\"")"), (GrammarSpec{GrammarKind::kLark, "start: \"a\""}));
  EXPECT_EQ(grammar(R"("grammar":"# root ::= 1\nstart: \"a\" // ::=")").kind, GrammarKind::kLark);
}

TEST(StructuredOutputs, ChoicesAreLiterals) {
  EXPECT_EQ(grammar(R"("choice":["a","b\"\\","c\n\u0001\u007f","é"])"),
            (GrammarSpec{GrammarKind::kEbnf, R"(root ::= "a" | "b\"\\" | "c\u000a\u0001\u007f" | "é")"}));
}

TEST(StructuredOutputs, WhitespaceIsAllOrNone) {
  const auto any = [](const std::string& fields) { return grammar(R"("json":{})" + fields).any_whitespace; };
  EXPECT_TRUE(any(""));
  EXPECT_FALSE(any(R"(,"disable_any_whitespace":true)"));
  for (const char* pattern : {R"([\\n\\t ]*)", R"(\\s*)", R"([ \n\t\r]*)"}) {
    EXPECT_TRUE(any(std::string(R"(,"whitespace_pattern":")") + pattern + "\"")) << pattern;
  }
  for (const char* pattern : {"", " ?", "[ ]?", "[\\\\n ]?", " *", "\\\\s?"}) {
    EXPECT_FALSE(any(std::string(R"(,"whitespace_pattern":")") + pattern + "\"")) << pattern;
  }
  for (const char* pattern : {" ", " +", "x*", "[a ]*", "  *", "*", "[]*", "\\\\", "\\\\s"}) {
    EXPECT_NE(refusal(std::string(R"("json":{},"whitespace_pattern":")") + pattern + "\""), "") << pattern;
  }
  ServingConfig compact = config();
  compact.disable_any_whitespace = true;
  EXPECT_FALSE(read(R"({"structured_outputs":{"json":{}}})", compact).asked->grammar.any_whitespace);
}

TEST(StructuredOutputs, ResponseFormatsAreTheSameInOtherWords) {
  const auto of = [](const std::string& format) { return read(R"({"response_format":)" + format + "}"); };
  EXPECT_EQ(of(R"({"type":"text"})").asked, nullptr);
  EXPECT_EQ(of(R"({"type":"json_object"})").asked->grammar.text, R"({"type":"object"})");
  EXPECT_EQ(of(R"({"type":"json_schema","json_schema":{"name":"n","schema":{"type":"null"}}})").asked->grammar.text,
            R"({"type":"null"})");
  const auto tag = of(R"({"type":"structural_tag","format":{"type":"any_text"}})").asked;
  EXPECT_EQ(tag->grammar.kind, GrammarKind::kStructuralTag);
  EXPECT_EQ(tag->field, "response_format");
  // Where there is no such field, nothing is read of it.
  EXPECT_EQ(read(R"({"response_format":{"type":"json_object"}})", config(), ResponseFormats::kNoSuchField).asked,
            nullptr);
}

TEST(StructuredOutputs, OlderTagsAreNewerOnes) {
  const auto asked = read(R"({"response_format":{"type":"structural_tag","structures":[{"begin":"<f>","schema":{"a":1},
                              "end":"</f>"}],"triggers":["<f"]}})")
                         .asked;
  EXPECT_EQ(asked->grammar.text,
            R"({"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<f"],"tags":[{"type":"tag",)"
            R"("begin":"<f>","content":{"type":"json_schema","json_schema":{"a":1}},"end":"</f>"}]}})");
}

TEST(StructuredOutputs, AToolChoiceReplacesWhatWasAsked) {
  StructuredOutputsFields fields;
  fields.regex = "a";
  fields.reasoning_ends = {{7, false}};
  constrain_to_structural_tag(fields, "{}");
  const auto asked = to_structured_outputs(fields, config());
  EXPECT_EQ(asked->grammar, (GrammarSpec{GrammarKind::kStructuralTag, "{}"}));
  EXPECT_EQ(asked->reasoning_ends.size(), 1u);
  ServingConfig everywhere = config();
  everywhere.enforce_in_reasoning = true;
  EXPECT_TRUE(to_structured_outputs(fields, everywhere)->reasoning_ends.empty());
}

TEST(StructuredOutputs, OneKindAtATime) {
  const std::string none =
      "{'json': None, 'regex': None, 'choice': None, 'grammar': None, 'json_object': None, 'disable_any_whitespace': "
      "False, 'disable_additional_properties': False, 'whitespace_pattern': None, 'structural_tag': None, '_backend': "
      "None, '_backend_was_auto': False}";
  EXPECT_EQ(refusal(""), "You must use one kind of structured outputs constraint but none are specified: " + none);
  EXPECT_EQ(read(R"({"response_format":{"type":"json_schema","json_schema":{"name":"n"}}})").refusal,
            "You must use one kind of structured outputs constraint but none are specified: " + none);
  EXPECT_EQ(refusal(R"("json":{"a":[1,2.5,true,null,"x'y"]},"grammar":"g","choice":null)"),
            "You can only use one kind of structured outputs constraint but multiple are specified: {'json': {'a': [1, "
            "2.5, True, None, \"x'y\"]}, 'regex': None, 'choice': None, 'grammar': 'g', 'json_object': None, "
            "'disable_any_whitespace': False, 'disable_additional_properties': False, 'whitespace_pattern': None, "
            "'structural_tag': None, '_backend': None, '_backend_was_auto': False}");
  EXPECT_EQ(refusal(R"("regex":"a","choice":["b"])"),
            "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice'). "
            "(parameter=structured_outputs)");
  EXPECT_NE(read(R"({"structured_outputs":{"regex":"a"},"response_format":{"type":"json_object"}})")
                .refusal.find("multiple are specified"),
            std::string::npos);
  // The schema of the format replaces the other.
  EXPECT_EQ(
      read(R"({"structured_outputs":{"json":{"a":1}},"response_format":{"type":"json_schema","json_schema":{"name":
                 "n","schema":{"b":2}}}})")
          .asked->grammar.text,
      R"({"b":2})");
  EXPECT_LT(refusal(R"("regex":")" + std::string(100000, 'a') + R"(","grammar":"b")").size(), 3000u);
}

TEST(StructuredOutputs, WrongTypesAreNamed) {
  EXPECT_NE(refusal(R"("json":5)").find("body.structured_outputs.json"), std::string::npos);
  EXPECT_NE(refusal(R"("choice":["a",1])").find("body.structured_outputs.choice.1"), std::string::npos);
  EXPECT_NE(read(R"({"structured_outputs":"a"})").refusal.find("dataclass_type"), std::string::npos);
  EXPECT_NE(read(R"({"response_format":"a"})").refusal.find("body.response_format"), std::string::npos);
  EXPECT_NE(read(R"({"response_format":{"type":"foo"}})").refusal.find("6 validation errors"), std::string::npos);
  EXPECT_NE(read(R"({"response_format":{"type":"json_schema","json_schema":{}}})").refusal.find("json_schema.name"),
            std::string::npos);
}

TEST(StructuredOutputs, TextsThatSayNothing) {
  EXPECT_EQ(refusal(R"("choice":[])"), "Choice '[]' cannot be an empty list");
  EXPECT_EQ(refusal(R"("json":" \n")"), "structured_outputs.json cannot be an empty string");
  EXPECT_EQ(refusal(R"("grammar":"")"), "structured_outputs.grammar cannot be an empty string");
  EXPECT_EQ(refusal(R"("json":"{")"), "Invalid JSON grammar specification.");
  EXPECT_EQ(refusal(R"("regex":"a\u0000b")"), "structured_outputs.regex must not contain a NUL character ('\\x00')");
  EXPECT_EQ(
      refusal(R"("json_object":false)"),
      "structured_outputs.json_object must be True if set; omit structured_outputs to disable structured outputs");
  for (const char* tag : {R"("")", R"("[]")", R"("{")", "{}", "5"}) {
    EXPECT_EQ(refusal(std::string(R"("structural_tag":)") + tag),
              "Invalid structured_outputs structural_tag specification. (parameter=structured_outputs)")
        << tag;
  }
  EXPECT_EQ(read(R"({"response_format":{"type":"structural_tag"}})").refusal,
            "Invalid response_format structural_tag specification. (parameter=response_format)");
}

std::string nested(int levels) {
  std::string text = "1";
  for (int i = 0; i < levels; ++i) text = i % 2 == 0 ? R"({"a":)" + text + "}" : "[" + text + "]";
  return text;
}

TEST(StructuredOutputs, NestingIsLimited) {
  const std::string too_deep = "The JSON schema is nested too deeply: objects and arrays may nest at most 64 levels";
  EXPECT_EQ(refusal(R"("json":)" + nested(63)), "");
  EXPECT_EQ(refusal(R"("json":)" + nested(67)), too_deep);
  const auto tag = [](int levels) {
    return read(R"({"response_format":{"type":"structural_tag","format":)" + nested(levels) + "}}").refusal;
  };
  EXPECT_EQ(tag(79), "");
  EXPECT_EQ(tag(81), too_deep);
}

TEST(StructuredOutputs, WhatTheGrammarEngineWouldIgnoreIsRefused) {
  const char* unsupported[] = {R"({"type":"integer","multipleOf":2})",
                               R"({"type":["number","null"],"multipleOf":2})",
                               R"({"type":"array","uniqueItems":true})",
                               R"({"type":"array","contains":{}})",
                               R"({"type":"string","format":"color"})",
                               R"({"type":"string","pattern":"a","minLength":1})",
                               R"({"type":"object","propertyNames":{"pattern":"a","maxLength":2}})",
                               R"({"type":"object","propertyNames":{},"properties":{}})",
                               R"({"type":"object","propertyNames":{},"unevaluatedProperties":false})",
                               R"({"type":"object","patternProperties":{"a":{}},"properties":{}})",
                               R"({"type":"object","patternProperties":{"a":{},"b":{}}})",
                               R"({"allOf":[{},{}]})",
                               R"({"type":"object","properties":{"a":{"anyOf":[{"type":"integer","multipleOf":2}]}}})"};
  for (const char* schema : unsupported) {
    EXPECT_EQ(refusal(std::string(R"("json":)") + schema),
              "The provided JSON schema contains features not supported by xgrammar.")
        << schema;
  }
  const char* supported[] = {R"({"multipleOf":2})",
                             R"({"type":"string","format":"date-time"})",
                             R"({"type":"string","minLength":1})",
                             R"({"allOf":[{}]})",
                             R"({"type":"object","patternProperties":{"a":{}}})",
                             R"({"type":"object","propertyNames":{"pattern":"a"}})"};
  for (const char* schema : supported) EXPECT_EQ(refusal(std::string(R"("json":)") + schema), "") << schema;
}

TEST(StructuredOutputs, WithoutTokenizerOrEngine) {
  ServingConfig none = config();
  none.no_structured_outputs = "Not here.";
  EXPECT_EQ(read(R"({"structured_outputs":{"regex":"a"}})", none).refusal, "Not here.");
  EXPECT_EQ(read("{}", none).refusal, "");
  none.tokenizer = nullptr;
  EXPECT_EQ(read(R"({"structured_outputs":{"regex":"a"}})", none).refusal,
            "Structured outputs requires a tokenizer so it can't be used with 'skip_tokenizer_init'");
}

}  // namespace
}  // namespace unspool
