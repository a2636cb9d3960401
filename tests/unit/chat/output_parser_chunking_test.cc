// A stream adds up to the same however it is cut, and costs the same for each byte.
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <new>
#include <random>

#include "chat/output_parser.h"
#include "chat/tool_format.h"
#include "output_parser_cases.h"

// What the parsers allocate, which is where reading a text again from its start would show. Sanitizers want to see
// every allocation themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;
constexpr size_t allocated_bytes = 0;
#else
constexpr bool kCountsAllocations = true;
namespace {
std::atomic<size_t> allocated_bytes = 0;
}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  allocated_bytes += size;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t /*size*/) noexcept {
  std::free(memory);
}
#endif

namespace unspool::chat {
namespace {

using testing::Case;
using testing::Fixture;
using testing::Parsed;
using testing::ServerSetup;

TEST(Chunking, EveryWayToCutATextGivesTheSame) {
  constexpr int kWays = 140;  // of each case
  std::mt19937 random(7);
  std::map<std::string, int> ways;
  for (const Case& recorded : testing::recorded_cases()) {
    const Fixture fixture(recorded.setup);
    const auto pieces = fixture.split(recorded.text);
    for (int way = 0; way < kWays; ++way) {
      const unsigned mean_size = 1 + random() % 12;
      std::vector<size_t> ends;
      for (size_t end = 0; end < pieces.size();) {
        end = std::min(pieces.size(), end + random() % (2 * mean_size));  // 0: a delta without text
        ends.push_back(end);
      }
      ASSERT_EQ(fixture.stream(pieces, ends), recorded.stream) << recorded.setup.parser << ": " << recorded.text;
      ++ways[recorded.setup.parser + (recorded.setup.has_args ? "" : "_")];
    }
  }
  for (const char* const parser : {"hermes_", "llama3_json_", "mistral", "mistral_", "pythonic_", "qwen3_xml_"}) {
    EXPECT_GT(ways[parser], 10'000) << parser;
  }
}

// Names, and arguments as JSON values, of outputs as models are trained to write them.
TEST(Chunking, StreamedAndWholeAreTheSameCalls) {
  const std::pair<ServerSetup, std::vector<std::string>> kOutputs[] = {
      {{.parser = "hermes"},
       {"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
        R"(<tool_call>{"name":"f","arguments":{"s":"a \"b\" \\ } ] { é 🙂 \u00e9"}}</tool_call>)",
        R"(Hi.<tool_call>{"name": "f", "arguments": {"a": [1, {"b": {}}]}}</tool_call><tool_call>{"name": "g", "arguments": [1]}</tool_call>)",
        R"(<tool_call>{"name": "f", "arguments": {"a": 1.50}}</tool_call>)"}},
      {{.parser = "llama3_json"},
       {R"({"name": "f", "parameters": {}})",
        R"(<|python_tag|>{"name": "f", "parameters": {"s":"é \u00e9 \ud83d\ude42 }"}})",
        R"({"name": "f", "parameters": {"a": [1, 2.50]}}; {"name": "g", "arguments": {"b": null}})"}},
      {{.parser = "mistral", .has_args = true},
       {R"([TOOL_CALLS]f{})", R"(Hi.[TOOL_CALLS]f{"city": "é } [x]"}[TOOL_CALLS]g{"n": [1]})",
        R"([TOOL_CALLS]f[ARGS]{"s": "x"})"}},
      {{.parser = "mistral"},
       {R"([TOOL_CALLS][{"name": "f", "arguments": {}}])",
        R"(Hi.[TOOL_CALLS] [{"name": "f", "arguments": {"s": "}]"}}, {"arguments": {"a": 1}, "name": "g"}])"}},
      {{.parser = "pythonic"}, {"[f()]", "[f(a=1, b='x]'), g(c={'k': [None, True]})]"}},
      {{.parser = "qwen3_xml"},
       {"<tool_call>\n<function=f>\n</function>\n</tool_call>",
        "Hi.<tool_call>\n<function=f>\n<parameter=s>\na < "
        "b\n</parameter>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>\n"
        "<tool_call>\n<function=g>\n<parameter=x>\n[1]\n</parameter>\n</function>\n</tool_call>"}},
  };
  for (const auto& [setup, outputs] : kOutputs) {
    const Fixture fixture(setup);
    for (const std::string& output : outputs) {
      const Parsed whole = fixture.whole(output);
      const Parsed streamed = fixture.stream(output);
      // Space at the ends is taken from a whole text alone.
      EXPECT_EQ(strip(whole.content.value_or("")), strip(streamed.content.value_or(""))) << output;
      ASSERT_EQ(whole.calls.size(), streamed.calls.size()) << output;
      ASSERT_FALSE(whole.calls.empty()) << output;
      for (size_t i = 0; i < whole.calls.size(); ++i) {
        EXPECT_EQ(whole.calls[i].name, streamed.calls[i].name) << output;
        const auto arguments = parse_python_json(whole.calls[i].arguments.value_or(""));
        ASSERT_TRUE(arguments) << output;
        EXPECT_EQ(arguments, parse_python_json(streamed.calls[i].arguments.value_or(""))) << output;
      }
    }
  }
}

std::string repeated(std::string_view text, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += text;
  return out;
}

struct Long {
  ServerSetup setup;
  std::string_view begin;
  std::string_view repeats;
};

const std::vector<Long>& long_texts() {
  static const std::vector<Long> kTexts = {
      {{.parser = "hermes"}, "", "plain < text "},
      {{.parser = "hermes"}, R"(<tool_call>{"name": "f", "arguments": {"s": ")", "x </tool_ y "},
      {{.parser = "hermes"}, R"(<tool_call>{"name": "f", "arguments": )", R"({"a":)"},
      {{.parser = "hermes"}, R"(<tool_call>{"arguments": {"s": ")", "\"name\": "},
      {{.parser = "hermes"}, "<tool_call>", "   \n"},
      {{.parser = "hermes"}, "", R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)"},
      {{.parser = "hermes"}, "", "<tool_call>"},
      {{.parser = "llama3_json"}, R"({"name": "f", "parameters": {"s": ")", R"(x\u00e9\ud83d)"},
      {{.parser = "llama3_json"}, R"({"parameters": )", "["},
      {{.parser = "llama3_json"}, "", R"({"name": "f", "parameters": {}}; )"},
      {{.parser = "llama3_json"}, R"({"name": "f", "parameters": )", "1"},
      {{.parser = "mistral", .has_args = true}, R"([TOOL_CALLS]f{"s": ")", "x [TOOL_"},
      {{.parser = "mistral", .has_args = true}, "", "[TOOL_CALLS]f{}"},
      {{.parser = "mistral"}, R"([TOOL_CALLS][{"name": "f", "arguments": {"s": ")", "x"},
      {{.parser = "mistral"}, "[TOOL_CALLS][", R"({"name": "f", "arguments": {}},)"},
      {{.parser = "mistral"}, "", "[TOOL_CALLS]"},
      {{.parser = "pythonic"}, "[", "f(a='x'),"},
      {{.parser = "pythonic"}, "[f(a=", "["},
      {{.parser = "pythonic"}, "[f(a=", "-"},
      {{.parser = "qwen3_xml"}, "<tool_call><function=f><parameter=s>", "x </par\n"},
      {{.parser = "qwen3_xml"}, "<tool_call><function=f>", "<parameter=s>x</parameter><parameter=n>4</parameter>"},
      {{.parser = "qwen3_xml"}, "", "<tool_call><function=f><parameter=s>x</parameter></function></tool_call>"},
      {{.parser = "qwen3_xml"}, "", "<"},
      {{.parser = "hermes", .reasoning = "qwen3"}, "", "x </thin"},
      {{.parser = "hermes", .reasoning = "qwen3"}, "", "<think>"},
      {{.parser = "hermes", .reasoning = "qwen3"}, "", "</think>"},
      {{.parser = "", .reasoning = "qwen3", .with_ids = true}, "", "<think>x"},
  };
  return kTexts;
}

size_t bytes_to_stream(const Long& text, size_t size) {
  const Fixture fixture(text.setup);
  const auto pieces = fixture.split(std::string(text.begin) + repeated(text.repeats, size));
  const auto stream = fixture.parser().stream({});
  const size_t before = allocated_bytes;
  for (const auto& piece : pieces)
    stream->read(piece.text, text.setup.with_ids ? piece.ids : std::vector<int32_t>{}, false);
  stream->read("", {}, true);
  return allocated_bytes - before;
}

TEST(Chunking, WhatAStreamAllocatesGrowsWithItsTextAlone) {
  if (!kCountsAllocations) GTEST_SKIP();
  constexpr size_t kSize = 25'000;
  for (const Long& text : long_texts()) {
    const size_t small = bytes_to_stream(text, kSize);
    const size_t large = bytes_to_stream(text, 4 * kSize);
    // Four times the text; a buffer that doubles may be twice as large as needed. Squared it were sixteen.
    EXPECT_LE(large, 9 * small + 100'000) << text.setup.parser << ": " << text.begin << text.repeats;
  }
}

// Some million steps where each byte costs the same; where each looks at all before it, 10^11 and more.
TEST(Chunking, LongTextsTakeNoTime) {
  constexpr size_t kSize = 200'000;
  constexpr double kFarOff_s = 60;
  const std::clock_t begin = std::clock();
  for (const Long& text : long_texts()) {
    const Fixture fixture(text.setup);
    const std::string output = std::string(text.begin) + repeated(text.repeats, kSize);
    fixture.stream(output);
    fixture.one_delta(output);
    fixture.whole(output);
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, kFarOff_s);
}

}  // namespace
}  // namespace unspool::chat
