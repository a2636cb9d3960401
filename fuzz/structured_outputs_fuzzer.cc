// Any JSON as a request that asks for structured outputs: a refusal with words and a status of 4xx, or one kind of
// grammar whose text is what the grammar engine may get.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "protocol/structured_outputs.h"

namespace {

using namespace unspool;

// Its presence is all that is asked.
class NoTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view, bool) const override { return {}; }
  std::string decode(std::span<const int32_t>, bool) const override { return {}; }
  int32_t vocab_size() const override { return 0; }
  std::string_view id_to_piece(int32_t) const override { return {}; }
  int32_t piece_to_id(std::string_view) const override { return -1; }
  std::string_view id_to_bytes(int32_t) const override { return {}; }
  bool is_special(int32_t) const override { return false; }
  int32_t max_piece_chars() const override { return 1; }
};

bool refused(const MaybeError& error) {
  if (error && (error->message.empty() || error->status < 400 || error->status > 499)) std::abort();
  return error.has_value();
}

void read(const JsonValue& body, ResponseFormats formats, const ServingConfig& config) {
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  StructuredOutputsFields fields;
  read_structured_outputs(reader, fields, formats);
  if (refused(fields.error) || refused(fields.conflict)) return;
  if (!errors.empty()) {
    refused(errors.to_api_error());
    return;
  }
  if (fields.num_kinds() > 1) std::abort();
  if (refused(check_constraint(fields, config))) return;
  const auto asked = to_structured_outputs(fields, config);
  if ((asked != nullptr) != (fields.num_kinds() == 1)) std::abort();
  if (asked && asked->grammar.kind == GrammarKind::kJsonSchema && !JsonDocument::parse(asked->grammar.text).ok()) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ServingConfig config = [] {
    ServingConfig made;
    made.tokenizer = std::make_shared<NoTokenizer>();
    made.no_structured_outputs.clear();
    return made;
  }();
  const auto document = JsonDocument::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  const JsonValue body = document->root();
  if (!body.is_object()) return 0;
  if (refused(check_structured_outputs_count(body)) || refused(check_response_format(body))) return 0;
  read(body, ResponseFormats::kRead, config);
  read(body, ResponseFormats::kNoSuchField, config);
  return 0;
}
