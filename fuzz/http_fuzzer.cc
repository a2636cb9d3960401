// Any bytes, cut at any places: the parser gives requests or a refusal, the same ones whatever the cuts, and targets
// decode.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/request_parser.h"
#include "http/target.h"

namespace {

using unspool::http::HttpRequest;
using unspool::http::RequestParser;

// Small, so that inputs reach them.
constexpr unspool::http::RequestLimits kLimits{512, 256};

struct Outcome {
  std::vector<HttpRequest> requests;
  bool refused = false;
};

// What a session does with the bytes of a connection that arrive `piece` at a time.
Outcome parse(std::string_view bytes, size_t piece) {
  Outcome outcome;
  auto parser = std::make_unique<RequestParser>(kLimits);
  std::string input;
  while (!bytes.empty() && !outcome.refused) {
    input.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      const size_t taken = parser->put(input);
      if (taken > input.size()) std::abort();
      input.erase(0, taken);
      if (parser->error_status() != 0) {
        outcome.refused = true;
        break;
      }
      if (parser->header_done()) {
        parser->keep_alive();
        parser->expects_continue();
      }
      if (parser->done()) {
        outcome.requests.push_back(parser->release());
        parser = std::make_unique<RequestParser>(kLimits);
        continue;
      }
      if (taken == 0) break;
    }
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const Outcome whole = parse(bytes, std::max<size_t>(bytes.size(), 1));
  const Outcome cut = parse(bytes, 1 + data[0] % 64);
  for (size_t i = 0; i < std::min(whole.requests.size(), cut.requests.size()); ++i) {
    const HttpRequest& a = whole.requests[i];
    const HttpRequest& b = cut.requests[i];
    if (a.method != b.method || a.path != b.path || a.query != b.query || a.body != b.body || a.headers != b.headers) {
      std::abort();
    }
    if (a.body.size() > kLimits.max_body_bytes) std::abort();
    for (const auto& [name, value] : a.headers) {
      if (value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos || a.header(name) == nullptr)
        std::abort();
    }
    a.query_parameters();
  }
  unspool::http::split_target(bytes);
  HttpRequest request;
  request.query = bytes;
  request.query_parameters();
  return 0;
}
