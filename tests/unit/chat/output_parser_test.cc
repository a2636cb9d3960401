#include "chat/output_parser.h"

#include "json/syntax_error.h"
#include "output_parser_cases.h"

namespace unspool::chat {
namespace {

using testing::Fixture;
using testing::Parsed;
using testing::ServerSetup;

TokenLookup no_tokens() {
  return [](std::string_view) { return std::nullopt; };
}

std::string error_of(std::string_view parser, std::string_view reasoning) {
  const auto parsers = OutputParsers::create(parser, reasoning, no_tokens());
  return parsers.ok() ? "" : parsers.error().message;
}

// A stream that is read by hand.
class Reader {
 public:
  explicit Reader(const ServerSetup& setup, std::vector<int32_t> prompt = {})
      : fixture_(setup), stream_(fixture_.parser().stream(prompt)) {}

  OutputDelta read(std::string_view text, bool finished = false) { return stream_->read(text, {}, finished); }
  OutputDelta read_ids(std::string_view text, const std::vector<int32_t>& ids) {
    return stream_->read(text, ids, false);
  }
  int64_t reasoning_tokens() const { return stream_->reasoning_tokens(); }

 private:
  Fixture fixture_;
  std::unique_ptr<OutputStream> stream_;
};

// "0 name f", "0 arguments {}" and the like.
std::vector<std::string> entries(const OutputDelta& delta) {
  std::vector<std::string> out;
  for (const ToolCallDelta& call : delta.tool_calls) {
    std::string entry = std::to_string(call.index);
    if (call.name) entry += " name " + *call.name;
    if (call.arguments) entry += " arguments " + *call.arguments;
    out.push_back(entry);
  }
  return out;
}

using Entries = std::vector<std::string>;

TEST(OutputParsers, UnknownNamesAreToldTheKnownOnes) {
  EXPECT_EQ(error_of("nope", ""),
            "tool-call parser 'nope' is not known; there are hermes, llama3_json, llama4_json, mistral, pythonic, "
            "qwen3_coder, qwen3_json, qwen3_xml");
  EXPECT_EQ(error_of("", "nope"), "reasoning parser 'nope' is not known; there are deepseek_r1, qwen3");
  EXPECT_EQ(tool_call_parser_names().size(), 8u);
  EXPECT_EQ(reasoning_parser_names().size(), 2u);
}

TEST(OutputParsers, TokenizersWithoutTheMarkersAreRefused) {
  EXPECT_NE(error_of("llama3_json", "").find("<|python_tag|>"), std::string::npos);
  EXPECT_NE(error_of("mistral", "").find("[TOOL_CALLS]"), std::string::npos);
  EXPECT_NE(error_of("", "deepseek_r1").find("<think>"), std::string::npos);
  for (const char* const parser : {"hermes", "qwen3_json", "qwen3_xml", "qwen3_coder", "pythonic"}) {
    EXPECT_EQ(error_of(parser, "qwen3"), "") << parser;
  }
}

TEST(OutputParsers, SpecialTokensAreKeptWhereMarkersMayBeSome) {
  const auto keeps = [](const ServerSetup& setup) { return Fixture(setup).parser().keeps_special_tokens(); };
  EXPECT_TRUE(keeps({.parser = "hermes"}));
  EXPECT_FALSE(keeps({.parser = "hermes", .choice = ToolChoice::kNone}));
  EXPECT_TRUE(keeps({.parser = "hermes", .reasoning = "qwen3", .choice = ToolChoice::kNone}));
  EXPECT_TRUE(keeps({.reasoning = "qwen3"}));
  EXPECT_FALSE(keeps({.reasoning = "deepseek_r1", .with_ids = true}));
  EXPECT_TRUE(keeps({.parser = "qwen3_xml", .choice = ToolChoice::kNone}));
  EXPECT_FALSE(keeps({}));
}

TEST(OutputParser, WithoutParsersEverythingIsContent) {
  const Fixture fixture(ServerSetup{});
  EXPECT_EQ(fixture.whole("<think>x</think><tool_call>").content, "<think>x</think><tool_call>");
  EXPECT_EQ(fixture.whole("").content, "");
  Reader reader(ServerSetup{});
  EXPECT_EQ(reader.read("<tool_call>").content, "<tool_call>");
  EXPECT_EQ(reader.read("", true).content, "");
}

TEST(Hermes, ANameAndItsArgumentsAreTwoEntries) {
  Reader reader({.parser = "hermes"});
  EXPECT_TRUE(reader.read(R"(<tool_call>{"name": "f)").empty());
  EXPECT_EQ(entries(reader.read(R"(")")), (Entries{"0 name f"}));
  EXPECT_TRUE(reader.read(R"(, "arguments": )").empty());
  EXPECT_EQ(entries(reader.read(R"({"a": 1)")), (Entries{R"(0 arguments {"a": 1)"}));
  EXPECT_EQ(entries(reader.read("}")), (Entries{"0 arguments }"}));
  EXPECT_TRUE(reader.read("}\n").empty());
  EXPECT_EQ(entries(reader.read(R"(</tool_call><tool_call>{"name": "g", "arguments": [1]}</tool_call>)")),
            (Entries{"1 name g", "1 arguments [1]"}));
}

TEST(Hermes, TheLastDeltasCallHasArguments) {
  Reader reader({.parser = "hermes"});
  reader.read("<tool_call>");
  EXPECT_EQ(entries(reader.read(R"({"name": "f")", true)), (Entries{"0 name f arguments "}));
  EXPECT_TRUE(Reader({.parser = "hermes"}).read("", true).empty());
}

TEST(Hermes, WhatMayBeATagWaits) {
  Reader reader({.parser = "hermes"});
  EXPECT_EQ(reader.read("a <").content, "a ");
  EXPECT_TRUE(reader.read("tool_call").empty());
  EXPECT_EQ(reader.read("s").content, "<tool_calls");
  EXPECT_EQ(reader.read(" b <tool").content, " b ");
  // The reference loses it.
  EXPECT_TRUE(reader.read("", true).empty());
}

TEST(Hermes, OneCallAloneWhereNoMoreAreWanted) {
  const std::string two =
      R"(x<tool_call>{"name": "f", "arguments": {}}</tool_call><tool_call>{"name": "g", "arguments": {}}</tool_call>)";
  const Fixture fixture({.parser = "hermes", .parallel = false});
  const Parsed one{std::nullopt, "x", {{0, "f", "{}"}}};
  EXPECT_EQ(fixture.whole(two), one);
  EXPECT_EQ(fixture.stream(two), one);
}

TEST(Hermes, AClosingTagInAStringIsText) {
  const Fixture fixture({.parser = "hermes"});
  const std::string arguments = R"({"cmd": "a\"</tool_call> </tool_call", "</tool_call>": [1]})";
  const std::string call = R"(<tool_call>{"name": "f", "arguments": )" + arguments + "}</tool_call>";
  const Parsed two{std::nullopt, "a ", {{0, "f", arguments}, {1, "f", arguments}}};
  EXPECT_EQ(fixture.whole("a " + call + "\n" + call), two);
  EXPECT_EQ(fixture.stream("a " + call + "\n" + call), two);
}

// What others get wrong: texts beyond ASCII, calls that are cut short, two objects in one tag, broken JSON. A whole
// text that is not read as calls is content, to the last byte.
TEST(Hermes, BrokenCallsAreContent) {
  const Fixture fixture({.parser = "hermes"});
  for (const std::string text : {
           R"(<tool_call>{"name": "f", "arguments": {"a": "cut</tool_call>)",
           R"(<tool_call>{"name": "f", "arguments": {"a": "\</tool_call>"}}</tool_call>)",
           R"(<tool_call>{"name": "f", "arguments": {"a": "ação)",
           R"(<tool_call>{"name": "f", "arguments": {}} {"name": "g", "arguments": {}}</tool_call> b)",
           R"(<tool_call>{"name": "f", "arguments": {}}</tool_call><tool_call>{</tool_call>)",
           R"(<tool_call>{name: f}</tool_call>)",
           R"(<tool_call></tool_call>)",
           R"(<tool_call>)",
       }) {
    EXPECT_EQ(fixture.whole(text), (Parsed{std::nullopt, text, {}}));
  }
  const Parsed text{std::nullopt, std::nullopt, {{0, "f", R"({"s": "ação 你好 🙂"})"}}};
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"s": "ação 你好 🙂"}})";
  EXPECT_EQ(fixture.whole(call), text);
  EXPECT_EQ(fixture.stream(call), text);
  EXPECT_EQ(fixture.stream(call + "</tool_call>"), text);
}

TEST(OutputParser, DeepNestingIsContentAndNoDanger) {
  constexpr size_t kDeep = 200'000;
  const std::string open(kDeep, '[');
  const std::string close(kDeep, ']');
  struct Text {
    ServerSetup setup;
    std::string begin;
    std::string end;
  };
  for (const auto& [setup, begin, end] : {
           Text{{.parser = "hermes"}, R"(<tool_call>{"name": "f", "arguments": )", "}</tool_call>"},
           Text{{.parser = "llama3_json"}, R"({"name": "f", "parameters": )", "}"},
           Text{{.parser = "mistral"}, R"([TOOL_CALLS][{"name": "f", "arguments": )", "}]"},
           Text{{.parser = "mistral", .has_args = true}, "[TOOL_CALLS]f[ARGS]", ""},
           Text{{.parser = "pythonic"}, "[f(a=", ")]"},
           Text{{.parser = "qwen3_xml"}, "<tool_call><function=f><parameter=l>", "</parameter></function></tool_call>"},
       }) {
    const Fixture fixture(setup);
    const Parsed whole = fixture.whole(begin + open + close + end);
    // Nothing is lost: it is content, or an argument that stays a text.
    const size_t kept =
        whole.content.value_or("").size() + (whole.calls.empty() ? 0 : whole.calls[0].arguments->size());
    EXPECT_GE(kept, 2 * kDeep) << setup.parser;
    fixture.stream(begin + open + close + end);
    fixture.stream(begin + open);
    fixture.whole(begin + open);
  }
  const std::string fits = std::string(kMaxJsonDepth - 1, '[') + std::string(kMaxJsonDepth - 1, ']');
  EXPECT_EQ(Fixture({.parser = "hermes"})
                .whole(R"(<tool_call>{"name": "f", "arguments": )" + fits + "}</tool_call>")
                .calls.size(),
            1u);
}

// The detokenizer makes UTF-8 of everything, but a delta may end within a character.
TEST(OutputParser, BytesThatAreNoUtf8AreTexts) {
  const std::string begin = "<tool_call><function=f><parameter=";
  const std::string end = "</parameter></function></tool_call>";
  const Fixture fixture({.parser = "qwen3_xml"});
  for (const char* const key : {"n", "x", "b", "l", "s"}) {
    const Parsed parsed = fixture.whole(begin + key + ">1\xff" + end);
    ASSERT_EQ(parsed.calls.size(), 1u) << key;
    EXPECT_EQ(parsed.calls[0].arguments, std::string("{\"") + key + "\": \"1\xff\"}");
  }
}

TEST(OutputParser, WithoutACallAForcedChoiceHasNoEmptyContent) {
  for (const ToolChoice choice : {ToolChoice::kRequired, ToolChoice::kNamed}) {
    EXPECT_EQ(Fixture({.parser = "hermes", .choice = choice}).whole(" \n"), Parsed{});
    EXPECT_EQ(Fixture({.parser = "hermes", .choice = choice}).whole("x").content, "x");
  }
  EXPECT_EQ(Fixture({.parser = "hermes"}).whole(" \n").content, " \n");
}

// Ids of the fixture's markers: <think>, </think>, <tool_call>, </tool_call>; every other byte is its own id.
constexpr int32_t kThink = 1000;
constexpr int32_t kThinkEnd = 1001;
constexpr int32_t kToolCall = 1002;

TEST(Reasoning, BeginsAsThePromptEnds) {
  struct Row {
    std::vector<int32_t> prompt;
    bool thinking;
    bool qwen3;
    bool deepseek_r1;
  };
  for (const auto& [prompt, thinking, qwen3, deepseek_r1] : {
           Row{{}, true, true, true},
           Row{{'u', 's'}, true, true, true},
           Row{{kThink}, true, true, true},
           Row{{kThink, '\n', '\n', kThinkEnd, '\n'}, true, false, false},
           Row{{kThinkEnd, kThink}, true, true, true},
           Row{{'x', kToolCall, 'y'}, true, false, true},
           Row{{}, false, false, true},
           Row{{kThink}, false, false, true},
       }) {
    const auto begins_in_reasoning = [&](const char* name) {
      Reader reader({.reasoning = name, .thinking = thinking, .with_ids = true}, prompt);
      return reader.read_ids("x", {'x'}).reasoning.has_value();
    };
    EXPECT_EQ(begins_in_reasoning("qwen3"), qwen3);
    EXPECT_EQ(begins_in_reasoning("deepseek_r1"), deepseek_r1);
  }
}

TEST(Reasoning, AnEarlierTurnsMarkersSayNothing) {
  const TokenLookup lookup = [](std::string_view text) -> std::optional<int32_t> {
    if (text == "</think>") return 1;
    if (text == "<|im_start|>") return 2;
    return std::nullopt;
  };
  const auto parsers = OutputParsers::create("", "qwen3", lookup);
  ASSERT_TRUE(parsers.ok());
  const auto parser = (*parsers)->for_request({});
  const std::vector<int32_t> prompt = {2, 5, 1, 6, 2, 7};
  EXPECT_EQ(parser->stream(prompt)->read("x", {}, false).reasoning, "x");
  EXPECT_EQ(parser->stream(std::vector<int32_t>{2, 5, 1, 6})->read("x", {}, false).content, "x");
}

TEST(Reasoning, AMarkerIsOneByItsId) {
  Reader reader({.reasoning = "qwen3", .with_ids = true});
  // Spelled out by other tokens it is text.
  EXPECT_EQ(reader.read_ids("a</think>b", {'a', 7, 8, 'b'}).reasoning, "a</think>b");
  // Of two places in a delta with one id the last is meant.
  const OutputDelta delta = reader.read_ids("</think>c</think>d", {7, 8, 'c', kThinkEnd, 'd'});
  EXPECT_EQ(delta.reasoning, "</think>c");
  EXPECT_EQ(delta.content, "d");
  EXPECT_EQ(reader.read_ids("</think>", {kThinkEnd}).content, "</think>");
}

TEST(Reasoning, AMarkersTextMayComeAfterItsId) {
  Reader reader({.parser = "hermes", .reasoning = "qwen3", .with_ids = true});
  EXPECT_EQ(reader.read_ids("abc</t", {'a', 'b', 'c', 'd', kThinkEnd}).reasoning, "abc");
  EXPECT_TRUE(reader.read_ids("hin", {'e'}).empty());
  const OutputDelta delta = reader.read_ids("k>de<tool_", {kToolCall});
  EXPECT_FALSE(delta.reasoning);
  EXPECT_EQ(delta.content, "de");
  EXPECT_EQ(entries(reader.read_ids(R"(call>{"name": "f")", {1})), (Entries{"0 name f"}));
}

TEST(Reasoning, ACallEndsIt) {
  const std::string text = R"(let me<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  const Parsed parsed{"let me", std::nullopt, {{0, "f", "{}"}}};
  for (const bool with_ids : {false, true}) {
    const Fixture fixture({.parser = "hermes", .reasoning = "qwen3", .with_ids = with_ids});
    EXPECT_EQ(fixture.whole(text), parsed);
    EXPECT_EQ(fixture.stream(text), parsed);
  }
}

TEST(Reasoning, BehindItEveryDeltaIsContent) {
  Reader reader({.reasoning = "qwen3"});
  EXPECT_TRUE(reader.read("").empty());
  EXPECT_EQ(reader.read("a").reasoning, "a");
  EXPECT_TRUE(reader.read("</think>").empty());
  EXPECT_EQ(reader.read("").content, "");
  EXPECT_EQ(reader.read("b").content, "b");
}

TEST(Reasoning, TokensAreCountedUpToItsEnd) {
  const std::vector<int32_t> ids = {kThink, 'a', 'b', kThinkEnd, 'c', kThink, 'd', kThinkEnd};
  const auto count = [&](const char* name, bool thinking) {
    return Fixture({.reasoning = name, .thinking = thinking, .with_ids = true}).parser().count_reasoning_tokens(ids);
  };
  EXPECT_EQ(count("qwen3", true), 2);
  EXPECT_EQ(count("qwen3", false), 0);
  EXPECT_EQ(count("deepseek_r1", true), 3);
  EXPECT_EQ(count("", true), 0);

  for (const char* const name : {"qwen3", "deepseek_r1"}) {
    Reader reader({.reasoning = name, .with_ids = true});
    reader.read_ids("<think>ab</think>c<think>d</think>", ids);
    EXPECT_EQ(reader.reasoning_tokens(), count(name, true)) << name;
  }
  Reader closed({.reasoning = "qwen3", .with_ids = true}, {kThinkEnd});
  closed.read_ids("ab", {'a', 'b'});
  EXPECT_EQ(closed.reasoning_tokens(), 0);
}

TEST(Reasoning, TokensAreCountedByTheirTextWhereMarkersAreNoTokens) {
  Reader reader({.reasoning = "qwen3"});
  reader.read_ids("ab", {1});
  reader.read_ids("c </", {2, 3});
  EXPECT_EQ(reader.reasoning_tokens(), 3);
  reader.read_ids("think", {4});
  reader.read_ids(">", {5});
  reader.read_ids("d", {6});
  EXPECT_EQ(reader.reasoning_tokens(), 3);
}

}  // namespace
}  // namespace unspool::chat
