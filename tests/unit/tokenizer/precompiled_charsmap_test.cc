#include "tokenizer/precompiled_charsmap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace unspool {
namespace {

std::string blob(const std::vector<uint32_t>& units, std::string_view texts) {
  std::string out(4 + 4 * units.size(), '\0');
  const auto size = static_cast<uint32_t>(4 * units.size());
  std::memcpy(out.data(), &size, 4);
  std::memcpy(out.data() + 4, units.data(), 4 * units.size());
  return out.append(texts);
}

// 'a' becomes the text at 2: the root's children lie at 1 ^ label, 'a' at 0x60; its own at 0x60 ^ 0x62 = 2.
std::vector<uint32_t> units_of_a() {
  std::vector<uint32_t> units(256);
  units[0] = 1 << 10;
  units[0x60] = 0x62 << 10 | 1 << 8 | 'a';
  units[0x02] = 1u << 31 | 2;
  return units;
}

TEST(PrecompiledCharsmap, FindsTheShortest) {
  const auto map = PrecompiledCharsmap::parse(blob(units_of_a(), std::string_view("x\0yz\0", 5)));
  ASSERT_TRUE(map.ok()) << map.error().message;
  EXPECT_EQ(map->find("a"), "yz");
  EXPECT_EQ(map->find("abc"), "yz");
  EXPECT_EQ(map->find("b"), std::nullopt);
  EXPECT_EQ(map->find(""), std::nullopt);
  EXPECT_EQ(map->find(std::string_view("\0a", 2)), std::nullopt);
}

TEST(PrecompiledCharsmap, RefusesWhatIsCutOff) {
  EXPECT_FALSE(PrecompiledCharsmap::parse("").ok());
  EXPECT_FALSE(PrecompiledCharsmap::parse("abc").ok());
  EXPECT_FALSE(PrecompiledCharsmap::parse(std::string(4, '\0')).ok());
  EXPECT_FALSE(PrecompiledCharsmap::parse(std::string("\x08\0\0\0abcd", 8)).ok());
  EXPECT_FALSE(PrecompiledCharsmap::parse(std::string("\xff\xff\xff\xff", 4) + std::string(64, 'x')).ok());
  EXPECT_FALSE(PrecompiledCharsmap::parse(blob(units_of_a(), "\xC3")).ok());
}

// Offsets and places in the file may be anything.
TEST(PrecompiledCharsmap, TrustsNothingInTheArray) {
  std::mt19937 dice(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint32_t> units = units_of_a();
    for (int i = 0; i < 8; ++i) units[dice() % units.size()] = static_cast<uint32_t>(dice());
    units[dice() % 2 == 0 ? 0 : 0x60] ^= 1u << (dice() % 32);
    const auto map = PrecompiledCharsmap::parse(blob(units, std::string_view("x\0y\u00e9\0", 6)));
    ASSERT_TRUE(map.ok());
    for (const std::string_view text : {"a", "aaaa", "\u00e9a", "b"}) {
      EXPECT_LE(map->find(text).value_or("").size(), 6u);
    }
  }
}

}  // namespace
}  // namespace unspool
