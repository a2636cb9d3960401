// SHA-256 (FIPS 180-4): the name by which trainers compare a tensor's bytes with theirs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace unspool {

class Sha256 {
 public:
  void add(const void* data, size_t size_bytes);
  // The digest of all that was added, in hexadecimal. Ends the computation.
  std::string hex();

 private:
  static constexpr size_t kBlockBytes = 64;
  void compress(const unsigned char* block);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlockBytes> pending_{};  // the first total_ % 64 bytes of a block
  uint64_t total_bytes_ = 0;
};

}  // namespace unspool
