#include "jinja/text.h"

#include <algorithm>

namespace unspool::jinja {
namespace {

Origin other_than(Origin origin) {
  return origin == Origin::kTemplate ? Origin::kInput : Origin::kTemplate;
}

}  // namespace

Origin Text::origin_at(size_t at) const {
  const auto passed = std::upper_bound(switches_.begin(), switches_.end(), at) - switches_.begin();
  return passed % 2 == 0 ? first_ : other_than(first_);
}

Text Text::slice(size_t begin, size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

void Text::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_ = origin;
  } else if (origin_at(bytes_.size() - 1) != origin) {
    switches_.push_back(bytes_.size());
  }
  bytes_ += bytes;
}

void Text::append(const Text& other) {
  append(other, 0, other.size());
}

void Text::append(const Text& other, size_t begin, size_t end) {
  if (begin >= end) return;
  auto next = std::upper_bound(other.switches_.begin(), other.switches_.end(), begin);
  while (begin < end) {
    const size_t stop = next == other.switches_.end() ? end : std::min(end, *next++);
    append(other.view().substr(begin, stop - begin), other.origin_at(begin));
    begin = stop;
  }
}

std::vector<Text::Run> Text::runs() const {
  std::vector<Run> runs;
  size_t begin = 0;
  Origin origin = first_;
  for (const size_t at : switches_) {
    runs.push_back({begin, at, origin});
    begin = at;
    origin = other_than(origin);
  }
  if (begin < bytes_.size()) runs.push_back({begin, bytes_.size(), origin});
  return runs;
}

}  // namespace unspool::jinja
