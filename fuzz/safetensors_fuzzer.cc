// Any bytes: a file is refused with a message, or every tensor lies within it, in order, as long as its shape says.
#include <cstdint>
#include <cstdlib>

#include "weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace unspool;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto contents = parse_safetensors(file);
  if (!contents.ok()) {
    if (contents.error().message.empty() || contents.error().message.size() > 4096) std::abort();
    return 0;
  }
  const std::byte* end = nullptr;
  for (const SafetensorsTensor& tensor : contents->tensors) {
    if (tensor.bytes.size() != tensor.view().size_bytes()) std::abort();
    if (tensor.bytes.data() < file.data() || tensor.bytes.data() + tensor.bytes.size() > file.data() + size)
      std::abort();
    if (end != nullptr && tensor.bytes.data() != end) std::abort();
    end = tensor.bytes.data() + tensor.bytes.size();
  }
  if (end != nullptr && end != file.data() + size) std::abort();
  return 0;
}
