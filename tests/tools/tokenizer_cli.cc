// Encodes and decodes lines of JSON, for comparison with other tokenizers (tools/tokenizer_parity.py).
//
// tokenizer_cli [--decode | --pieces | --time] TOKENIZER_JSON
//   no option  a JSON string a line in, the JSON array of its ids out (special tokens added)
//   --decode   a JSON array of ids a line in, the JSON string that they decode to out (special tokens kept)
//   --pieces   as without an option, but the vocabulary pieces in place of the ids
//   --time     reads nothing, prints how long loading took in milliseconds
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "tokenizer/tokenizer.h"

namespace {

using unspool::JsonDocument;
using unspool::JsonWriter;
using unspool::Result;
using unspool::Tokenizer;

Result<std::string> answer(const Tokenizer& tokenizer, const std::string& mode, const std::string& line) {
  UNSPOOL_ASSIGN(const JsonDocument document, JsonDocument::parse(line));
  JsonWriter writer;
  if (mode == "--decode") {
    const auto values = document.root().as_int64_array();
    if (!values) return unspool::invalid_argument("expected an array of ids, got " + line);
    const std::vector<int32_t> ids(values->begin(), values->end());
    writer.string(tokenizer.decode(ids, false));
    return std::move(writer).str();
  }
  const auto text = document.root().as_string();
  if (!text) return unspool::invalid_argument("expected a string, got " + line);
  writer.begin_array();
  for (const int32_t id : tokenizer.encode(*text, true)) {
    if (mode == "--pieces") {
      writer.string(tokenizer.id_to_piece(id));
    } else {
      writer.integer(id);
    }
  }
  writer.end_array();
  return std::move(writer).str();
}

int fail(const std::string& message) {
  fmt::print(stderr, "tokenizer_cli: {}\n", message);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  if (argc < 2 || argc > 3 || (argc == 3 && mode != "--decode" && mode != "--pieces" && mode != "--time")) {
    return fail("usage: tokenizer_cli [--decode | --pieces | --time] TOKENIZER_JSON");
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
    const Result<std::string> result = answer(**tokenizer, mode, line);
    if (!result.ok()) return fail(result.error().message);
    fmt::print("{}\n", *result);
  }
  return 0;
}
