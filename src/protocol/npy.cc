#include "protocol/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/base64.h"
#include "base/check.h"

namespace unspool {

std::string npy_file(std::string_view descr, std::span<const int64_t> shape, std::span<const std::byte> data) {
  constexpr size_t kPrefix = 10;  // magic, version, and the header's length in two bytes
  constexpr size_t kAlignment = 64;
  constexpr size_t kLongestAxis = 21;  // NumPy leaves room for the first axis to grow in place
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  if (!shape.empty()) header.append(kLongestAxis - std::to_string(shape[0]).size(), ' ');
  header.append(kAlignment - (kPrefix + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  UNSPOOL_CHECK(header.size() <= UINT16_MAX, "a header of {} bytes", header.size());
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  return file.append(reinterpret_cast<const char*>(data.data()), data.size());
}

void write_routed_experts(JsonWriter& w, const std::optional<RoutedExperts>& routed) {
  if (!routed) return w.null();
  const std::array shape = {routed->rows(), routed->shape.layers, routed->shape.top_k};
  const std::string file = npy_file(routed->shape.id_bytes == 1 ? "|u1" : "<u2", shape, routed->ids);
  w.string(base64_encode(std::as_bytes(std::span(file))));
}

}  // namespace unspool
