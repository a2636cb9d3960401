#include "base/log.h"

#include <gtest/gtest.h>

namespace unspool {
namespace {

TEST(Log, AnEventIsOneLineWhateverAClientPutsIntoIt) {
  EXPECT_EQ(log_text("Tag a\nI 01-01 forged is not known"), R"(Tag a\x0aI 01-01 forged is not known)");
  EXPECT_EQ(log_text("\x1b[31m\t\x7f"), R"(\x1b[31m\x09\x7f)");
  EXPECT_EQ(log_text(std::string_view("a\0b", 3)), R"(a\x00b)");
  EXPECT_EQ(log_text("Grüße 🙂"), "Grüße 🙂");
  EXPECT_EQ(log_text("\xff\xc3"), R"(\xff\xc3)");
  const std::string cut = log_text(std::string(1 << 20, 'x'));
  EXPECT_LT(cut.size(), size_t{20000});
  EXPECT_TRUE(cut.ends_with(" bytes more)"));
}

}  // namespace
}  // namespace unspool
