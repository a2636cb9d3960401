#include "request/sequence.h"

#include <utility>

#include "request/request.h"

namespace unspool {

namespace {

ScheduleKey key_of_sample(ScheduleKey key, int index) {
  key.index = index;
  return key;
}

}  // namespace

Sequence::Sequence(Request& owner, int sample_index)
    : request(owner),
      index(sample_index),
      // n is at most 16384.
      id(static_cast<int64_t>(owner.id() << 15) + sample_index),
      key(key_of_sample(owner.key(), sample_index)) {}

int Sequence::num_tokens() const {
  return request.prompt_length() + static_cast<int>(output_token_ids.size());
}

TokenView Sequence::tokens() const {
  return {request.spec().prompt_token_ids, output_token_ids};
}

void Sequence::append_token(int32_t token_id, const std::string& version) {
  const int position = static_cast<int>(output_token_ids.size());
  output_token_ids.push_back(token_id);
  const bool opens = std::exchange(opens_span, false);
  if (opens || weight_versions.empty() || weight_versions.back().version != version) {
    weight_versions.push_back({version, position, position});
  }
  weight_versions.back().end = position + 1;
}

}  // namespace unspool
