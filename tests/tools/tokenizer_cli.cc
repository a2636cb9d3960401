// Encodes and decodes lines of JSON, for comparison with other tokenizers (tools/tokenizer_parity.py).
//
// tokenizer_cli [--decode | --pieces | --stream | --texts | --time] TOKENIZER_JSON
//   no option  a JSON string a line in, the JSON array of its ids out (special tokens added)
//   --decode   a JSON array of ids a line in, the JSON string that they decode to out (special tokens kept)
//   --pieces   as without an option, but the vocabulary pieces in place of the ids
//   --stream   {"prompt": [ids], "ids": [ids], "skip": bool} a line in, the array of what a stream emits for each of
//   ids
//   --texts    a JSON array of ids a line in, the array of how each is shown by itself
//   --time     reads nothing, prints how long loading took in milliseconds
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "tokenizer/incremental_detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace {

using unspool::JsonDocument;
using unspool::JsonValue;
using unspool::JsonWriter;
using unspool::Result;
using unspool::Tokenizer;

using Loaded = std::shared_ptr<const Tokenizer>;

Result<std::vector<int32_t>> ids_of(const JsonValue& json) {
  const auto values = json.as_int64_array();
  if (!values) return unspool::invalid_argument("expected an array of ids, got " + json.dump());
  return std::vector<int32_t>(values->begin(), values->end());
}

Result<std::vector<std::string>> stream(const Loaded& tokenizer, const JsonValue& json) {
  UNSPOOL_ASSIGN(const auto prompt, ids_of(json["prompt"]));
  UNSPOOL_ASSIGN(const auto ids, ids_of(json["ids"]));
  unspool::IncrementalDetokenizer detokenizer(tokenizer, prompt, json["skip"].as_bool().value_or(false), true);
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.push_back(detokenizer.push(id));
  return texts;
}

Result<std::vector<std::string>> texts_of(const Tokenizer& tokenizer, const JsonValue& json) {
  UNSPOOL_ASSIGN(const auto ids, ids_of(json));
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.push_back(tokenizer.token_text(id));
  return texts;
}

std::string to_json(const std::vector<std::string>& texts) {
  JsonWriter writer;
  writer.begin_array();
  for (const std::string& text : texts) writer.string(text);
  writer.end_array();
  return std::move(writer).str();
}

Result<std::string> answer(const Loaded& tokenizer, const std::string& mode, const std::string& line) {
  UNSPOOL_ASSIGN(const JsonDocument document, JsonDocument::parse(line));
  const JsonValue root = document.root();
  JsonWriter writer;
  if (mode == "--decode") {
    UNSPOOL_ASSIGN(const auto ids, ids_of(root));
    writer.string(tokenizer->decode(ids, false));
    return std::move(writer).str();
  }
  if (mode == "--stream" || mode == "--texts") {
    UNSPOOL_ASSIGN(const auto texts, mode == "--stream" ? stream(tokenizer, root) : texts_of(*tokenizer, root));
    return to_json(texts);
  }
  const auto text = root.as_string();
  if (!text) return unspool::invalid_argument("expected a string, got " + line);
  writer.begin_array();
  for (const int32_t id : tokenizer->encode(*text, true)) {
    if (mode == "--pieces") {
      writer.string(tokenizer->id_to_piece(id));
    } else {
      writer.integer(id);
    }
  }
  writer.end_array();
  return std::move(writer).str();
}

constexpr std::string_view kModes[] = {"--decode", "--pieces", "--stream", "--texts", "--time"};

int fail(const std::string& message) {
  fmt::print(stderr, "tokenizer_cli: {}\n", message);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  if (argc < 2 || argc > 3 ||
      (argc == 3 && std::find(std::begin(kModes), std::end(kModes), mode) == std::end(kModes))) {
    return fail("usage: tokenizer_cli [--decode | --pieces | --stream | --texts | --time] TOKENIZER_JSON");
  }
  const auto start = std::chrono::steady_clock::now();
  const auto tokenizer = Tokenizer::load(argv[argc - 1]);
  if (!tokenizer.ok()) return fail(tokenizer.error().message);
  if (mode == "--time") {
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    fmt::print("{:.1f}\n", elapsed.count());
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const Result<std::string> result = answer(*tokenizer, mode, line);
    if (!result.ok()) return fail(result.error().message);
    fmt::print("{}\n", *result);
  }
  return 0;
}
