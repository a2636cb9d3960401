#include "chat/output_parser.h"
#include "output_parser_cases.h"

namespace unspool::chat {
namespace {

using testing::Case;
using testing::Fixture;
using testing::Parsed;

std::string name_of(const Case& recorded) {
  const auto number = &recorded - testing::recorded_cases().data();
  return "#" + std::to_string(number) + " " + recorded.setup.parser + "+" + recorded.setup.reasoning + " choice " +
         std::to_string(static_cast<int>(recorded.setup.choice)) + ": " + recorded.text;
}

TEST(RecordedOutputs, Whole) {
  ASSERT_GT(testing::recorded_cases().size(), 800u);
  for (const Case& recorded : testing::recorded_cases()) {
    EXPECT_EQ(Fixture(recorded.setup).whole(recorded.text), recorded.whole) << name_of(recorded);
  }
}

TEST(RecordedOutputs, StreamedTokenByToken) {
  for (const Case& recorded : testing::recorded_cases()) {
    EXPECT_EQ(Fixture(recorded.setup).stream(recorded.text), recorded.stream) << name_of(recorded);
  }
}

TEST(RecordedOutputs, StreamedAsOneDelta) {
  for (const Case& recorded : testing::recorded_cases()) {
    EXPECT_EQ(Fixture(recorded.setup).one_delta(recorded.text), recorded.stream) << name_of(recorded);
  }
}

}  // namespace
}  // namespace unspool::chat
