// Files for the tests of weights, built by hand.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace unspool {

inline std::string safetensors_file(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(uint64_t{header.size()} >> (8 * i));
  return file.append(header).append(data);
}

// One tensor of a file; `shape` is JSON.
struct TestTensor {
  std::string name;
  std::string dtype;
  std::string shape;
  std::string bytes;
};

inline std::string safetensors_of(const std::vector<TestTensor>& tensors) {
  std::string header;
  std::string data;
  for (const TestTensor& tensor : tensors) {
    header += (header.empty() ? "{\"" : ",\"") + tensor.name + R"(":{"dtype":")" + tensor.dtype + R"(","shape":)" +
              tensor.shape + ",\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  return safetensors_file(header.empty() ? "{}" : header + "}", data);
}

// A directory that goes away with the object.
class TempDir {
 public:
  explicit TempDir(const std::filesystem::path& under = std::filesystem::temp_directory_path()) {
    std::string pattern = (under / "unspool-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
  }

 private:
  std::string path_;
};

}  // namespace unspool
