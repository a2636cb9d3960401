#include "protocol/npy.h"

#include <gtest/gtest.h>

#include <array>

namespace unspool {
namespace {

std::string file_of(std::string_view descr, std::vector<int64_t> shape, std::string_view data) {
  return npy_file(descr, shape, std::as_bytes(std::span(data)));
}

// What numpy.save() of NumPy 2 writes.
TEST(Npy, IsNumPysFile) {
  const std::string small = file_of("|u1", {1, 2, 3}, "abcdef");
  ASSERT_EQ(small.size(), 128u + 6);
  EXPECT_EQ(small.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(small.substr(10, 60), "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 3),");
  EXPECT_EQ(small.substr(70, 57), " }" + std::string(55, ' '));
  EXPECT_EQ(small.substr(127), "\nabcdef");
  EXPECT_EQ(file_of("<u2", {7}, "").substr(10, 57), "{'descr': '<u2', 'fortran_order': False, 'shape': (7,), }");
  EXPECT_EQ(file_of("<u2", {0, 48, 8}, "").size() % 64, 0u);
}

TEST(Npy, RoutedExpertsInAReply) {
  JsonWriter w;
  w.begin_array();
  write_routed_experts(w, std::nullopt);
  RoutedExperts routed{.shape = {.layers = 2, .top_k = 1, .id_bytes = 2}, .ids = std::vector<std::byte>(12)};
  EXPECT_EQ(routed.rows(), 3);
  write_routed_experts(w, routed);
  w.end_array();
  const std::string text = std::move(w).str();
  EXPECT_TRUE(text.starts_with(R"([null,"k05VTVBZAQB2AHsn)")) << text;
  EXPECT_EQ(text.size(), 9 + (128 + 12 + 2) / 3 * 4) << text;
}

}  // namespace
}  // namespace unspool
