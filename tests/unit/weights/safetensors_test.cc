#include "weights/safetensors.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "weights_test_util.h"

namespace unspool {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST(SafetensorsTest, ReadsWhatTheFormatsOwnLibraryWrites) {
  const auto file = SafetensorsFile::open(std::string(UNSPOOL_TEST_DATA) + "/safetensors/sample.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  struct Expected {
    int seed;
    DType dtype;
    Shape shape;
  };
  const std::map<std::string, Expected> expected = {
      {"model.embed_tokens.weight", {0, DType::kBFloat16, {3, 4}}},
      {"model.norm.weight", {1, DType::kFloat32, {5}}},
      {"odd.bytes", {2, DType::kUInt8, {3}}},
      {"half", {3, DType::kFloat16, {2, 1, 3}}},
      {"scalar", {4, DType::kFloat64, {}}},
      {"empty", {5, DType::kFloat32, {0, 4}}},
      {"ünïcode", {6, DType::kInt64, {2}}},
      {"eight", {7, DType::kFloat8E4M3, {2, 2}}},
      {"flags", {8, DType::kBool, {1}}},
  };
  ASSERT_EQ(file->tensors().size(), expected.size());
  for (const SafetensorsTensor& tensor : file->tensors()) {
    ASSERT_TRUE(expected.contains(tensor.name)) << tensor.name;
    const Expected& want = expected.at(tensor.name);
    EXPECT_EQ(tensor.dtype, want.dtype) << tensor.name;
    EXPECT_EQ(tensor.shape, want.shape) << tensor.name;
    ASSERT_EQ(tensor.bytes.size(), tensor.view().size_bytes()) << tensor.name;
    for (size_t i = 0; i < tensor.bytes.size(); ++i) {
      EXPECT_EQ(std::to_integer<size_t>(tensor.bytes[i]), 7 * static_cast<size_t>(want.seed) + i) << tensor.name;
    }
  }
  EXPECT_EQ(file->metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"note", "sample"}}));
}

TEST(SafetensorsTest, AcceptsPaddingAnyOrderAndNoTensors) {
  EXPECT_TRUE(parse_safetensors(as_bytes(safetensors_file("{}", ""))).ok());
  const std::string swapped = safetensors_file(
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   )",
      "xyz");
  const auto contents = parse_safetensors(as_bytes(swapped));
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  EXPECT_EQ(contents->tensors[0].name, "a");
  EXPECT_EQ(contents->tensors[1].bytes[0], std::byte{'z'});
}

struct Malformed {
  std::string header;
  std::string data;
  std::string message;  // part of the error
};

TEST(SafetensorsTest, RefusesMalformedHeaders) {
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string wide = "[1,1,1,1,1,1,1,1,1]";
  const Malformed cases[] = {
      {"", "", "JSON object"},
      {"[]", "", "JSON object"},
      {" {}", "", "JSON object"},
      {"{", "", "header"},
      {"{}x", "", "header"},
      {R"({"a":)" + std::string(5000, '[') + std::string(5000, ']') + "}", "", "header"},
      {"{\"\xff\":1}", "", "header"},
      {R"({"a":1})", "", "tensor \"a\": expected an object"},
      {R"({"a":{}})", "", "dtype is missing"},
      {R"({"a":{"dtype":"U8","shape":[0]}})", "", "data_offsets is missing"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})", "", "\"dtype\" is given twice"},
      {tensor("XX", "[1]", "[0,1]"), "x", R"(dtype: unknown "XX")"},
      {R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", "x", "dtype: unknown 8"},
      {tensor("U8", "[-1]", "[0,1]"), "x", "shape: expected integers of 0 or more"},
      {tensor("U8", "[1.0]", "[0,1]"), "x", "shape: expected integers"},
      {tensor("U8", "[18446744073709551615]", "[0,1]"), "x", "shape: expected integers"},
      {tensor("U8", "1", "[0,1]"), "x", "shape: expected a list"},
      {tensor("U8", wide, "[0,1]"), "x", "at most 8 extents"},
      {tensor("U8", "[4294967296,4294967296]", "[0,0]"), "", "overflows"},
      {tensor("F64", "[2305843009213693952]", "[0,0]"), "", "overflows"},
      {tensor("F32", "[1]", "[0,3]"), "xyz", "32 bits, but [0, 3] is 3 bytes"},
      {tensor("F4", "[1]", "[0,1]"), "x", "4 bits"},
      {tensor("U8", "[2]", "[0]"), "xy", "two integers"},
      {tensor("U8", "[2]", "[0,1,2]"), "xy", "two integers"},
      {tensor("U8", "[2]", "[-2,0]"), "xy", "integers of 0 or more"},
      {tensor("U8", "[2]", "[2,0]"), "xy", "begin <= end"},
      {tensor("U8", "[2]", "[0,2]"), "x", "only 1 bytes of data"},
      {tensor("U8", "[2]", "[9223372036854775805,9223372036854775807]"), "xy", "only 2 bytes of data"},
      {tensor("U8", "[2]", "[0,2]"), "xyz", "belongs to no tensor"},
      {tensor("U8", "[2]", "[1,3]"), "xyz", "leaves a hole"},
      {"{}", "x", "belongs to no tensor"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "xyz", "overlaps"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       "xyz", "tensor \"b\": leaves a hole"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       "xy", "given twice"},
      {R"({"__metadata__":{"a":1}})", "", "__metadata__"},
      {R"({"__metadata__":[]})", "", "__metadata__"},
      {R"({"__metadata__":{"a":"x","a":"y"}})", "", "given twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "", "given twice"},
  };
  for (const Malformed& bad : cases) {
    const auto contents = parse_safetensors(as_bytes(safetensors_file(bad.header, bad.data)));
    ASSERT_FALSE(contents.ok()) << bad.header;
    EXPECT_NE(contents.error().message.find(bad.message), std::string::npos) << bad.header << "\n"
                                                                             << contents.error().message;
    EXPECT_LT(contents.error().message.size(), 600u);
  }
}

TEST(SafetensorsTest, RefusesMalformedLengths) {
  std::string file = safetensors_file("{}", "");
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(parse_safetensors(as_bytes(file.substr(0, size))).ok()) << size;
  }
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{100'000'000}, uint64_t{200'000'000}, UINT64_MAX, UINT64_MAX - 7}) {
    for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i));
    const auto contents = parse_safetensors(as_bytes(file));
    ASSERT_FALSE(contents.ok()) << length;
    EXPECT_NE(contents.error().message.find("header length"), std::string::npos);
  }
}

TEST(SafetensorsTest, ErrorsNameTheFileAndCutHostileNames) {
  const TempDir dir;
  const std::string name(10'000, 'n');
  dir.write("x.safetensors", safetensors_file("{\"" + name + "\\n\":1}", ""));
  const auto file = SafetensorsFile::open(dir.path() + "/x.safetensors");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find(dir.path() + "/x.safetensors: tensor \"nnn"), std::string::npos);
  EXPECT_LT(file.error().message.size(), 400u);
  EXPECT_EQ(SafetensorsFile::open(dir.path() + "/none").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace unspool
