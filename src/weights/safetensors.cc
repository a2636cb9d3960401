#include "weights/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "json/json.h"
#include "weights/quote.h"

namespace unspool {
namespace {

constexpr size_t kPrefixBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own library

// What the header says of one tensor, before its place in the data is checked.
struct HeaderEntry {
  SafetensorsTensor tensor;
  int64_t begin = 0;
  int64_t end = 0;
};

Result<std::string_view> header_text(std::span<const std::byte> file) {
  if (file.size() < kPrefixBytes) {
    return invalid_argument(fmt::format("expected at least {} bytes, got {}", kPrefixBytes, file.size()));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kPrefixBytes; ++i) length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  if (length > kMaxHeaderBytes) {
    return invalid_argument(fmt::format("header length: expected at most {}, got {}", kMaxHeaderBytes, length));
  }
  if (length > file.size() - kPrefixBytes) {
    return invalid_argument(fmt::format("header length: {} bytes, but the file has only {} after the length", length,
                                        file.size() - kPrefixBytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kPrefixBytes, length);
  if (!text.starts_with('{')) return invalid_argument("header: expected a JSON object that starts at byte 8");
  return text;
}

Result<std::map<std::string, std::string>> parse_metadata(const JsonValue& value) {
  if (!value.is_object()) return invalid_argument("__metadata__: expected an object of strings");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, entry] : value.members()) {
    const std::optional<std::string_view> text = entry.as_string();
    if (!text) return invalid_argument(fmt::format("__metadata__: expected a string for {}", quote_name(key)));
    if (!metadata.emplace(key, *text).second) {
      return invalid_argument(fmt::format("__metadata__: {} is given twice", quote_name(key)));
    }
  }
  return metadata;
}

Result<Shape> parse_shape(const JsonValue& value) {
  if (!value.is_array()) return invalid_argument("shape: expected a list of integers");
  if (value.size() > Shape::kMaxRank) {
    return invalid_argument(fmt::format("shape: expected at most {} extents, got {}", Shape::kMaxRank, value.size()));
  }
  std::vector<int64_t> dims;
  for (const JsonValue& element : value.elements()) {
    const std::optional<int64_t> extent = element.as_int64();
    if (!extent || *extent < 0) return invalid_argument("shape: expected integers of 0 or more");
    dims.push_back(*extent);
  }
  return Shape(dims);
}

// The two data_offsets, counted from the end of the header.
Status parse_offsets(const JsonValue& value, HeaderEntry& entry) {
  const std::vector<JsonValue> offsets = value.elements();
  if (offsets.size() != 2) return invalid_argument("data_offsets: expected a list of two integers");
  const std::optional<int64_t> begin = offsets[0].as_int64();
  const std::optional<int64_t> end = offsets[1].as_int64();
  if (!begin || !end || *begin < 0 || *end < 0) return invalid_argument("data_offsets: expected integers of 0 or more");
  if (*begin > *end) {
    return invalid_argument(fmt::format("data_offsets: expected begin <= end, got [{}, {}]", *begin, *end));
  }
  entry.begin = *begin;
  entry.end = *end;
  return {};
}

Status check_byte_length(const HeaderEntry& entry) {
  const SafetensorsTensor& tensor = entry.tensor;
  const std::optional<int64_t> elements = tensor.shape.checked_num_elements();
  int64_t bits = 0;
  if (!elements || __builtin_mul_overflow(*elements, dtype_bits(tensor.dtype), &bits)) {
    return invalid_argument(fmt::format("shape: the size of {} overflows", tensor.shape.to_string()));
  }
  if (bits % 8 != 0 || bits / 8 != entry.end - entry.begin) {
    return invalid_argument(fmt::format("data_offsets: {} of {} is {} bits, but [{}, {}] is {} bytes",
                                        tensor.shape.to_string(), safetensors_name(tensor.dtype), bits, entry.begin,
                                        entry.end, entry.end - entry.begin));
  }
  return {};
}

Result<HeaderEntry> parse_entry(std::string_view name, const JsonValue& value) {
  if (!value.is_object()) return invalid_argument("expected an object");
  std::set<std::string_view> keys;
  for (const auto& [key, unused] : value.members()) {
    if (!keys.insert(key).second) return invalid_argument(fmt::format("{} is given twice", quote_name(key)));
  }
  for (const std::string_view key : {"dtype", "shape", "data_offsets"}) {
    if (!keys.contains(key)) return invalid_argument(fmt::format("{} is missing", key));
  }
  const std::optional<std::string_view> dtype_name = value["dtype"].as_string();
  const std::optional<DType> dtype = dtype_name ? parse_safetensors_dtype(*dtype_name) : std::nullopt;
  if (!dtype) return invalid_argument(fmt::format("dtype: unknown {}", fit_line(value["dtype"].dump())));

  HeaderEntry entry;
  entry.tensor.name = name;
  entry.tensor.dtype = *dtype;
  UNSPOOL_ASSIGN(entry.tensor.shape, parse_shape(value["shape"]));
  UNSPOOL_TRY(parse_offsets(value["data_offsets"], entry));
  UNSPOOL_TRY(check_byte_length(entry));
  return entry;
}

// Sorts the tensors by place, holds them against the data without overlap, hole or rest, and points each at its bytes.
Status place(std::vector<HeaderEntry>& entries, std::span<const std::byte> data) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const int64_t size = static_cast<int64_t>(data.size());
  int64_t covered = 0;
  for (HeaderEntry& entry : entries) {
    if (entry.end > size) {
      return invalid_argument(fmt::format("tensor {}: data_offsets end at {}, but the file has only {} bytes of data",
                                          quote_name(entry.tensor.name), entry.end, size));
    }
    if (entry.begin != covered) {
      return invalid_argument(
          fmt::format("tensor {}: {}: expected data from {} on, got {}", quote_name(entry.tensor.name),
                      entry.begin < covered ? "overlaps the one before" : "leaves a hole", covered, entry.begin));
    }
    covered = entry.end;
    entry.tensor.bytes = data.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin));
  }
  if (covered != size) {
    return invalid_argument(
        fmt::format("expected {} bytes of data, got {}: the rest belongs to no tensor", covered, size));
  }
  return {};
}

}  // namespace

Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> file) {
  UNSPOOL_ASSIGN(const std::string_view text, header_text(file));
  auto document = JsonDocument::parse(text);
  if (!document.ok()) return invalid_argument("header: " + document.error().message);
  if (!document->root().is_object()) return invalid_argument("header: expected a JSON object");

  SafetensorsContents contents;
  std::vector<HeaderEntry> entries;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, value] : document->root().members()) {
    if (!names.insert(name).second) return invalid_argument(fmt::format("tensor {}: given twice", quote_name(name)));
    if (name == "__metadata__") {
      UNSPOOL_ASSIGN(contents.metadata, parse_metadata(value));
      continue;
    }
    auto entry = parse_entry(name, value);
    if (!entry.ok()) return invalid_argument(fmt::format("tensor {}: {}", quote_name(name), entry.error().message));
    entries.push_back(std::move(entry).value());
  }
  UNSPOOL_TRY(place(entries, file.subspan(kPrefixBytes + text.size())));
  contents.tensors.reserve(entries.size());
  for (HeaderEntry& entry : entries) contents.tensors.push_back(std::move(entry.tensor));
  return contents;
}

SafetensorsFile::SafetensorsFile(MappedFile file, SafetensorsContents contents)
    : file_(std::move(file)), contents_(std::move(contents)) {}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  UNSPOOL_ASSIGN(MappedFile file, MappedFile::open(path));
  auto contents = parse_safetensors(file.bytes());
  if (!contents.ok()) return invalid_argument(path + ": " + contents.error().message);
  return SafetensorsFile(std::move(file), std::move(contents).value());
}

}  // namespace unspool
