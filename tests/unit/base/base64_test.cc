#include "base/base64.h"

#include <gtest/gtest.h>

namespace unspool {
namespace {

TEST(Base64, Decodes) {
  EXPECT_EQ(base64_decode(""), "");
  EXPECT_EQ(base64_decode("Zg=="), "f");
  EXPECT_EQ(base64_decode("Zm8="), "fo");
  EXPECT_EQ(base64_decode("Zm9v"), "foo");
  EXPECT_EQ(base64_decode("Zm9vYg"), "foob");  // without its padding
  EXPECT_EQ(base64_decode("+/+/"), "\xfb\xff\xbf");
}

TEST(Base64, RefusesTheRest) {
  for (const char* text : {"Z", "Zm9vY", "Zm 9", "Zm9-", "Z===", "====", "Zg=a", "=Zg="}) {
    EXPECT_EQ(base64_decode(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace unspool
