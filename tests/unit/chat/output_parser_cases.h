// Outputs of models, and what the reference's parsers make of them (tests/data/tool_parsers/README.md).
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/output_parser.h"
#include "chat/python_json.h"
#include "json/json.h"

namespace unspool::chat::testing {

struct Call {
  int index = 0;
  std::optional<std::string> name;
  std::optional<std::string> arguments;
  bool operator==(const Call&) const = default;
};

// What was parsed, from a whole text or added up from a stream. In a whole, calls are numbered in order.
struct Parsed {
  std::optional<std::string> reasoning;
  std::optional<std::string> content;
  std::vector<Call> calls;
  bool operator==(const Parsed&) const = default;
};

// As tests/data/tool_parsers has it, so that what a test prints can be compared with that.
inline void PrintTo(const Parsed& parsed, std::ostream* out) {
  const auto text = [](const std::optional<std::string>& value) {
    return value ? PythonJson::string(*value) : PythonJson();
  };
  PythonJson calls{PythonJson::Kind::kArray, {}, {}, {}};
  for (const Call& call : parsed.calls) {
    calls.items.push_back({PythonJson::Kind::kArray,
                           {},
                           {PythonJson::integer(std::to_string(call.index)), text(call.name), text(call.arguments)},
                           {}});
  }
  const PythonJson json{
      PythonJson::Kind::kArray, {}, {text(parsed.reasoning), text(parsed.content), std::move(calls)}, {}};
  *out << dump_python_json(json);
}

struct Piece {
  std::string text;
  std::vector<int32_t> ids;
};

// The tests' tokenizer: the markers are tokens, and so is every other byte, as its own value.
class Vocabulary {
 public:
  Vocabulary(std::vector<std::string> markers) : markers_(std::move(markers)) {}  // NOLINT(google-explicit-constructor)

  TokenLookup lookup() const {
    return [markers = markers_](std::string_view text) -> std::optional<int32_t> {
      for (size_t i = 0; i < markers.size(); ++i) {
        if (markers[i] == text) return kFirstMarker + static_cast<int32_t>(i);
      }
      return std::nullopt;
    };
  }

  std::vector<Piece> split(std::string_view text) const {
    std::vector<Piece> pieces;
    while (!text.empty()) {
      Piece piece{std::string(text.substr(0, 1)), {static_cast<unsigned char>(text[0])}};
      for (size_t i = 0; i < markers_.size(); ++i) {
        if (text.starts_with(markers_[i])) piece = {markers_[i], {kFirstMarker + static_cast<int32_t>(i)}};
      }
      text.remove_prefix(piece.text.size());
      pieces.push_back(std::move(piece));
    }
    return pieces;
  }

 private:
  static constexpr int32_t kFirstMarker = 1000;
  std::vector<std::string> markers_;
};

struct ServerSetup {
  std::string parser = {};
  std::string reasoning = {};
  ToolChoice choice = ToolChoice::kAuto;
  bool thinking = true;
  bool with_ids = false;  // reasoning's markers are tokens
  bool has_args = false;  // of Mistral's tokenizers
  bool parallel = true;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(std::string(UNSPOOL_TEST_DATA) + "/" + path);
  std::ostringstream out;
  out << in.rdbuf();
  EXPECT_FALSE(out.str().empty()) << path;
  return out.str();
}

inline const JsonDocument& tools_document() {
  static const JsonDocument kTools = std::move(JsonDocument::parse(read_file("tool_parsers/tools.json"))).value();
  return kTools;
}

// A server's parsers and a request's, as one.
class Fixture {
 public:
  explicit Fixture(const ServerSetup& setup) : with_ids_(setup.with_ids), vocabulary_(markers(setup)) {
    auto parsers = OutputParsers::create(setup.parser, setup.reasoning, vocabulary_.lookup());
    EXPECT_TRUE(parsers.ok()) << parsers.error().message;
    parsers_ = std::move(*parsers);
    OutputRequest request;
    request.tools = tools_document().root();
    request.tool_choice = setup.choice;
    request.function_name = "f";
    request.enable_thinking = setup.thinking;
    request.parallel_tool_calls = setup.parallel;
    parser_ = parsers_->for_request(request);
  }

  const OutputParser& parser() const { return *parser_; }
  const OutputParsers& parsers() const { return *parsers_; }

  Parsed whole(std::string_view text) const {
    ParsedOutput output = parser_->parse(text);
    Parsed parsed{std::move(output.reasoning), std::move(output.content), {}};
    for (ToolCall& call : output.tool_calls) {
      parsed.calls.push_back({static_cast<int>(parsed.calls.size()), std::move(call.name), std::move(call.arguments)});
    }
    return parsed;
  }

  // Deltas of these pieces, added up. `ends`: after how many pieces each delta ends; one more that is empty finishes.
  Parsed stream(const std::vector<Piece>& pieces, const std::vector<size_t>& ends) const {
    const auto stream = parser_->stream({});
    Adder adder;
    size_t at = 0;
    for (const size_t end : ends) {
      Piece delta;
      for (; at < end; ++at) {
        delta.text += pieces[at].text;
        delta.ids.insert(delta.ids.end(), pieces[at].ids.begin(), pieces[at].ids.end());
      }
      if (!with_ids_) delta.ids.clear();
      adder.add(stream->read(delta.text, delta.ids, false));
    }
    adder.add(stream->read("", {}, true));
    return adder.take();
  }
  Parsed stream(std::string_view text) const {
    const auto pieces = split(text);
    std::vector<size_t> ends(pieces.size());
    for (size_t i = 0; i < ends.size(); ++i) ends[i] = i + 1;
    return stream(pieces, ends);
  }
  Parsed one_delta(std::string_view text) const {
    const auto pieces = split(text);
    return stream(pieces, {pieces.size()});
  }
  std::vector<Piece> split(std::string_view text) const { return vocabulary_.split(text); }

 private:
  class Adder {
   public:
    void add(const OutputDelta& delta) {
      if (delta.reasoning) append(parsed_.reasoning, *delta.reasoning);
      if (delta.content) append(parsed_.content, *delta.content);
      for (const ToolCallDelta& call : delta.tool_calls) {
        Call& sum = calls_[call.index];
        sum.index = call.index;
        EXPECT_FALSE(call.name && sum.name) << "a second name";
        if (call.name) sum.name = call.name;
        if (call.arguments) append(sum.arguments, *call.arguments);
      }
    }
    Parsed take() {
      for (auto& [index, call] : calls_) parsed_.calls.push_back(std::move(call));
      return std::move(parsed_);
    }

   private:
    // An empty text is nothing to a client.
    static void append(std::optional<std::string>& sum, const std::string& text) {
      if (text.empty()) return;
      if (!sum) sum.emplace();
      *sum += text;
    }
    Parsed parsed_;
    std::map<int, Call> calls_;
  };

  static std::vector<std::string> markers(const ServerSetup& setup) {
    std::vector<std::string> markers;
    if (setup.parser.starts_with("llama")) markers.emplace_back("<|python_tag|>");
    if (setup.parser == "mistral") markers.emplace_back("[TOOL_CALLS]");
    if (setup.has_args) markers.emplace_back("[ARGS]");
    if (setup.with_ids) markers.insert(markers.end(), {"<think>", "</think>", "<tool_call>", "</tool_call>"});
    return markers;
  }

  bool with_ids_;
  Vocabulary vocabulary_;
  std::unique_ptr<const OutputParsers> parsers_;
  std::unique_ptr<const OutputParser> parser_;
};

struct Case {
  ServerSetup setup;
  std::string text;
  Parsed whole;
  Parsed stream;
};

// Every recorded case. Where we differ on purpose, a case says what is ours.
inline const std::vector<Case>& recorded_cases() {
  static const std::vector<Case> kCases = [] {
    const auto text_of = [](const PythonJson* json) {
      return json != nullptr && json->is_string() ? std::optional(json->text) : std::nullopt;
    };
    const auto parsed_of = [&](const PythonJson& json) {
      Parsed parsed{text_of(&json.items[0]), text_of(&json.items[1]), {}};
      for (const PythonJson& call : json.items[2].items) {
        const size_t first = call.items.size() == 3 ? 1 : 0;
        const int index = first == 1 ? std::stoi(call.items[0].text) : static_cast<int>(parsed.calls.size());
        parsed.calls.push_back({index, text_of(&call.items[first]), text_of(&call.items[first + 1])});
        // In a stream, no text at all is as good as an empty one.
        if (first == 1 && parsed.calls.back().arguments == "") parsed.calls.back().arguments.reset();
      }
      return parsed;
    };
    std::vector<Case> cases;
    std::istringstream lines(read_file("tool_parsers/recorded.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto json = parse_python_json(line);
      EXPECT_TRUE(json) << line;
      const std::string parser = text_of(json->find("parser")).value_or("");
      const std::string choice = json->find("choice")->text;
      Case& added = cases.emplace_back();
      added.setup.parser = parser == "mistral_array" ? "mistral" : parser;
      added.setup.has_args = parser == "mistral";
      added.setup.reasoning = text_of(json->find("reasoning")).value_or("");
      added.setup.choice = choice == "auto"       ? ToolChoice::kAuto
                           : choice == "none"     ? ToolChoice::kNone
                           : choice == "required" ? ToolChoice::kRequired
                                                  : ToolChoice::kNamed;
      added.setup.thinking = json->find("thinking")->kind == PythonJson::Kind::kTrue;
      added.setup.with_ids = json->find("ids")->kind == PythonJson::Kind::kTrue;
      added.text = json->find("text")->text;
      const auto ours_or = [&](std::string_view ours, std::string_view recorded) {
        const PythonJson* const found = json->find(ours);
        return parsed_of(found != nullptr ? *found : *json->find(recorded));
      };
      added.whole = ours_or("our_whole", "whole");
      added.stream = ours_or("our_stream", "stream");
    }
    return cases;
  }();
  return kCases;
}

}  // namespace unspool::chat::testing
