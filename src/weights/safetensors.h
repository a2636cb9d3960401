// The safetensors file format, checked strictly: a file is either exactly what its header says or an error.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tensor/tensor_view.h"

namespace unspool {

// One tensor of a file; `bytes` points into the mapping, at any alignment.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> bytes;

  TensorView view() const { return {bytes.data(), dtype, shape}; }
};

struct SafetensorsContents {
  std::vector<SafetensorsTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// Parses a whole file held in memory: an 8-byte little-endian header length, a JSON header, the data. Nothing is
// allocated by a size that the file merely declares. What fails: a header longer than 100 MB or than the file; a header
// that is not a JSON object; an unknown dtype; a shape with negative, fractional or overflowing extents, or of more
// than Shape::kMaxRank; data that is out of the file, overlaps, leaves a hole, or is not shape x dtype long; a name
// given twice.
Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> file);

// A file mapped into memory together with its tensors. Moves, does not copy; spans stay valid over a move.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<SafetensorsTensor>& tensors() const { return contents_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return contents_.metadata; }
  // Gives resident pages back to the operating system; they are read again when touched.
  void drop_pages() const { file_.drop_pages(); }
  bool has_changed() const { return file_.has_changed(); }  // written to since it was opened

 private:
  SafetensorsFile(MappedFile file, SafetensorsContents contents);

  MappedFile file_;
  SafetensorsContents contents_;
};

}  // namespace unspool
