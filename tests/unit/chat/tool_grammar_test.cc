#include "chat/tool_grammar.h"

#include <gtest/gtest.h>

#include <string>

#include "output_parser_cases.h"

namespace unspool::chat {
namespace {

using testing::read_file;

constexpr std::string_view kTools = R"([
  {"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},
  {"type":"function","function":{"name":"now","strict":true,"parameters":{"type":"object","properties":{}}}},
  {"type":"function","function":{"name":"bare"}}])";

std::string tools(bool strict) {
  std::string text(kTools);
  constexpr std::string_view kStrict = R"("strict":true,)";
  if (!strict) text.erase(text.find(kStrict), kStrict.size());
  return text;
}

struct Choice {
  std::string_view name;
  ToolChoice choice;
  std::string_view function;
};
constexpr Choice kChoices[] = {{"auto", ToolChoice::kAuto, ""},
                               {"required", ToolChoice::kRequired, ""},
                               {"named", ToolChoice::kNamed, "get_weather"},
                               {"named_strict", ToolChoice::kNamed, "now"},
                               {"none", ToolChoice::kNone, ""}};

ToolGrammarRequest request_of(const JsonDocument& document, std::string_view choice) {
  ToolGrammarRequest request;
  request.tools = document.root();
  for (const auto& [name, value, function] : kChoices) {
    if (name != choice) continue;
    request.tool_choice = value;
    request.function_name = function;
  }
  return request;
}

// Both as JSON values, whatever the spaces and the order of members.
void expect_json(const std::optional<std::string>& actual, const PythonJson& expected, const std::string& what) {
  if (expected.kind == PythonJson::Kind::kNull) {
    EXPECT_FALSE(actual) << what;
    return;
  }
  ASSERT_TRUE(actual) << what;
  const auto parsed = parse_python_json(*actual);
  ASSERT_TRUE(parsed) << *actual;
  EXPECT_EQ(dump_python_json(*parsed), dump_python_json(expected)) << what;
}

// Every structural tag that the reference makes of these tools (tests/data/tool_parsers/README.md).
TEST(ToolGrammar, StructuralTagsAreTheReferences) {
  const auto recorded = parse_python_json(read_file("tool_parsers/structural_tags.json"));
  ASSERT_TRUE(recorded);
  ASSERT_EQ(recorded->items.size(), 144u);
  size_t tags = 0;
  for (const PythonJson& item : recorded->items) {
    const auto text = [&](std::string_view key) { return item.find(key)->text; };
    const auto document = JsonDocument::parse(tools(text("tools") == "strict"));
    ASSERT_TRUE(document.ok());
    ToolGrammarRequest request = request_of(*document, text("choice"));
    request.strict_level = *parse_tool_strict_level(text("level"));
    request.parallel_tool_calls = item.find("parallel")->kind == PythonJson::Kind::kTrue;
    const CallStyle style = text("model") == "hermes"  ? CallStyle::kHermes
                            : text("model") == "llama" ? CallStyle::kLlamaJson
                                                       : CallStyle::kQwen3Xml;
    expect_json(structural_tag(style, request), *item.find("tag"), dump_python_json(item));
    tags += item.find("tag")->is_object() ? 1 : 0;
  }
  EXPECT_GT(tags, 100u);
}

TEST(ToolGrammar, AFormatThatIsAskedForStaysPossible) {
  const auto document = JsonDocument::parse(tools(true));
  ToolGrammarRequest request = request_of(*document, "auto");
  request.output_format = R"({"type":"regex","pattern":"a+"})";
  const auto tag = structural_tag(CallStyle::kHermes, request);
  ASSERT_TRUE(tag);
  const auto parsed = JsonDocument::parse(*tag);
  const JsonValue format = parsed->root()["format"];
  EXPECT_EQ(format["type"].as_string(), "or");
  ASSERT_EQ(format["elements"].size(), 2u);
  EXPECT_EQ(format["elements"].elements()[0]["type"].as_string(), "tags_with_separator");
  EXPECT_EQ(format["elements"].elements()[0]["at_least_one"].as_bool(), true);
  EXPECT_EQ(format["elements"].elements()[1].dump(), request.output_format);

  // No tool is strict: the format alone, even where one call is to be the most.
  const auto plain = JsonDocument::parse(tools(false));
  request.tools = plain->root();
  request.parallel_tool_calls = false;
  EXPECT_FALSE(structural_tag(CallStyle::kHermes, request));
  // A forced call leaves no room for it.
  request = request_of(*plain, "required");
  const auto without = structural_tag(CallStyle::kHermes, request);
  request.output_format = R"({"type":"regex","pattern":"a+"})";
  EXPECT_EQ(structural_tag(CallStyle::kHermes, request), without);
}

TEST(ToolGrammar, NothingWithoutToolsOrChoice) {
  const auto document = JsonDocument::parse(tools(true));
  EXPECT_FALSE(structural_tag(CallStyle::kHermes, request_of(*document, "none")));
  EXPECT_FALSE(forced_call_schema(request_of(*document, "auto")));
  ToolGrammarRequest request = request_of(*document, "required");
  request.tools = JsonValue();
  EXPECT_FALSE(structural_tag(CallStyle::kHermes, request));
  EXPECT_FALSE(forced_call_schema(request));
  EXPECT_FALSE(mistral_call_schema(request));
}

constexpr std::string_view kList =
    R"({"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": [{"properties": {"name": {"type": "string", "enum": ["get_weather"]}, "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}, "required": ["name", "parameters"]}, {"properties": {"name": {"type": "string", "enum": ["now"]}, "parameters": {"type": "object", "properties": {}}}, "required": ["name", "parameters"]}, {"properties": {"name": {"type": "string", "enum": ["bare"]}, "parameters": {"type": "object", "properties": {}}}, "required": ["name", "parameters"]}]}})";
constexpr std::string_view kMistralNamed =
    R"({"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "object", "anyOf": [{"type": "object", "properties": {"name": {"type": "string", "enum": ["now"]}, "arguments": {"type": "object", "properties": {}}}, "required": ["name", "arguments"]}]}})";

TEST(ToolGrammar, SchemasOfForcedCalls) {
  const auto document = JsonDocument::parse(tools(true));
  expect_json(forced_call_schema(request_of(*document, "required")), *parse_python_json(kList), "required");
  expect_json(forced_call_schema(request_of(*document, "named_strict")),
              *parse_python_json(R"({"type": "object", "properties": {}})"), "named");
  expect_json(mistral_call_schema(request_of(*document, "named_strict")), *parse_python_json(kMistralNamed), "mistral");
  ToolGrammarRequest one = request_of(*document, "required");
  one.parallel_tool_calls = false;
  EXPECT_NE(forced_call_schema(one)->find(R"("maxItems":1)"), std::string::npos);
}

TEST(ToolGrammar, EachParserHasItsOwn) {
  const auto document = JsonDocument::parse(tools(true));
  using Kind = ToolGrammar::Kind;
  const auto kind_of = [&](testing::ServerSetup setup, std::string_view choice) -> std::optional<Kind> {
    const auto grammar = testing::Fixture(setup).parsers().tool_grammar(request_of(*document, choice));
    return grammar ? std::optional(grammar->kind) : std::nullopt;
  };
  for (const char* const parser : {"hermes", "qwen3_json", "llama3_json", "llama4_json", "qwen3_xml", "qwen3_coder"}) {
    EXPECT_EQ(kind_of({.parser = parser}, "required"), Kind::kStructuralTag) << parser;
  }
  EXPECT_EQ(kind_of({.parser = "pythonic"}, "required"), Kind::kJsonSchema);
  EXPECT_EQ(kind_of({.parser = "pythonic"}, "auto"), std::nullopt);
  EXPECT_EQ(kind_of({.parser = "mistral"}, "required"), Kind::kJsonSchema);
  EXPECT_EQ(kind_of({.parser = "mistral", .has_args = true}, "required"), std::nullopt);
  EXPECT_EQ(kind_of({}, "required"), std::nullopt);
}

}  // namespace
}  // namespace unspool::chat
