// Any text through any parser, cut in any way: a stream adds up to what it is as one delta, and nothing that is whole
// is lost. The first bytes choose the parser and the cuts.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "chat/output_parser.h"
#include "json/json.h"

namespace {

using namespace unspool;
using namespace unspool::chat;

constexpr std::string_view kTools = R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",
  "properties":{"s":{"type":"string"},"n":{"type":"integer"},"x":{"type":"number"},"b":{"type":"boolean"},
  "l":{"type":"array","items":{"type":"integer"}},"o":{"type":"object","properties":{"n":{"type":"integer"}}},
  "a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}}])";

constexpr std::array<std::string_view, 8> kParsers = {"",        "hermes",   "llama3_json", "mistral",
                                                      "mistral", "pythonic", "qwen3_xml",   "hermes"};
constexpr std::array<std::string_view, 3> kReasoning = {"", "qwen3", "deepseek_r1"};

struct Sum {
  std::string reasoning;
  std::string content;
  std::map<int, std::pair<std::string, std::string>> calls;
  bool operator==(const Sum&) const = default;

  void add(const OutputDelta& delta) {
    reasoning += delta.reasoning.value_or("");
    content += delta.content.value_or("");
    for (const ToolCallDelta& call : delta.tool_calls) {
      auto& [name, arguments] = calls[call.index];
      if (call.name && !name.empty()) std::abort();
      name += call.name.value_or("");
      arguments += call.arguments.value_or("");
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  static const JsonDocument kDocument = std::move(JsonDocument::parse(kTools)).value();
  const size_t parser_number = data[0] % kParsers.size();
  // Of Mistral's two formats the second one has a token for it.
  const bool has_args = parser_number == 4;
  const TokenLookup lookup = [has_args](std::string_view text) -> std::optional<int32_t> {
    if (text == "[ARGS]" && !has_args) return std::nullopt;
    return 1'000'000 + static_cast<int32_t>(text.size());
  };
  const auto parsers =
      OutputParsers::create(kParsers[parser_number], kReasoning[(data[1] >> 4) % kReasoning.size()], lookup);
  if (!parsers.ok()) std::abort();
  OutputRequest request;
  request.tools = kDocument.root();
  request.tool_choice = static_cast<ToolChoice>(data[1] % 4);
  request.function_name = "f";
  request.enable_thinking = (data[1] & 4) == 0;
  const auto parser = (*parsers)->for_request(request);
  uint32_t cuts = data[2] | data[3] << 8 | 1u << 16;
  const std::string_view text(reinterpret_cast<const char*>(data) + 4, size - 4);

  const ParsedOutput whole = parser->parse(text);
  if (whole.tool_calls.empty() && !whole.content && !whole.reasoning && kParsers[parser_number].empty() &&
      kReasoning[(data[1] >> 4) % kReasoning.size()].empty()) {
    std::abort();
  }
  Sum one;
  const auto one_stream = parser->stream({});
  one.add(one_stream->read(text, {}, true));
  Sum many;
  const auto stream = parser->stream({});
  for (size_t at = 0; at < text.size();) {
    cuts = cuts * 1664525 + 1013904223;
    const size_t bytes = std::min<size_t>(text.size() - at, (cuts >> 20) % 9);
    many.add(stream->read(text.substr(at, bytes), {}, false));
    at += bytes;
  }
  many.add(stream->read("", {}, true));
  if (one != many) std::abort();
  return 0;
}
