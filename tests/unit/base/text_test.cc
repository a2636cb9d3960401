#include "base/text.h"

#include <gtest/gtest.h>

namespace unspool {
namespace {

TEST(Text, CountsPlacesThatDoNotOverlap) {
  EXPECT_EQ(count_of("", "a"), 0u);
  EXPECT_EQ(count_of("banana", "an"), 2u);
  EXPECT_EQ(count_of("aaaaa", "aa"), 2u);
  EXPECT_EQ(count_of("a", "aa"), 0u);
}

}  // namespace
}  // namespace unspool
