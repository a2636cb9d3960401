// Any bytes: parsing gives a document or a named error, and what a document dumps parses to the same dump.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "json/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace unspool;
  JsonSyntaxError error;
  const auto parsed = JsonDocument::parse({reinterpret_cast<const char*>(data), size}, &error);
  if (!parsed.ok()) {
    if (error.message.empty() || error.message == "Invalid JSON" || error.position > size) std::abort();
    return 0;
  }
  const JsonValue root = parsed->root();
  root.as_int64_array();
  for (const auto& [key, value] : root.members()) {
    if (!root.find(key)) std::abort();
  }
  const std::string dump = root.dump();
  const auto again = JsonDocument::parse(dump);
  if (!again.ok() || again->root().dump() != dump) std::abort();
  return 0;
}
