// Updates are all or nothing, and what they leave has the bits of a cold start.
#include "staging_fixture.h"

namespace unspool {
namespace {

class WeightStagingTest : public testing::TestWithParam<DType> {
 protected:
  // A model that serves `seed`'s tensors.
  std::unique_ptr<Staged> serving(unsigned seed, WeightUpdateMode mode = WeightUpdateMode::kDoubleBuffer) {
    auto staged = std::make_unique<Staged>(GetParam(), mode);
    staged->begin();
    for (const TestTensor& tensor : tensors_of(seed)) EXPECT_TRUE(staged->put(tensor).ok());
    EXPECT_TRUE(staged->staging().commit().ok());
    return staged;
  }
  Content cold(unsigned seed) { return unspool::cold(GetParam(), tensors_of(seed)); }
  // `of` with some tensors taken from another set.
  Content with(Content of, unsigned seed, const std::vector<std::string>& names) {
    const Content other = cold(seed);
    for (const auto& name : names) of[name] = other.at(name);
    return of;
  }
  void set(Content& content, const std::string& name, int64_t index, float value) {
    set_element(content, name, index, value, GetParam());
  }
};

TEST_P(WeightStagingTest, AWholeSessionIsAColdStart) {
  Staged staged(GetParam());
  for (int cycle = 0; cycle < 3; ++cycle) {
    for (const unsigned seed : {1, 2}) {
      const Content before = staged.content();
      staged.begin();
      for (const TestTensor& tensor : tensors_of(seed)) ASSERT_TRUE(staged.put(tensor).ok());
      EXPECT_TRUE(staged.staging().missing(true).empty());
      EXPECT_EQ(staged.content(), before);
      ASSERT_TRUE(staged.staging().commit().ok());
      EXPECT_EQ(staged.content(), cold(seed));
    }
  }
}

TEST_P(WeightStagingTest, TheOrderOfTensorsHasNoSay) {
  const auto staged = serving(1);
  staged->begin();
  auto tensors = tensors_of(2);
  std::reverse(tensors.begin(), tensors.end());
  for (const TestTensor& tensor : tensors) ASSERT_TRUE(staged->put(tensor).ok());
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->content(), cold(2));
}

TEST_P(WeightStagingTest, WhatDoesNotComeStays) {
  for (const bool settled : {false, true})
    for (const std::vector<std::string>& names :
         {std::vector<std::string>{"q"}, {"k"}, {"v", "q"}, {"o", "m"}, {"n"}, {}}) {
      const auto staged = serving(1);
      for (const unsigned seed : {2, 3}) {  // the second one over a copy that holds older weights
        const Content before = staged->content();
        staged->begin();
        for (const auto& name : names) ASSERT_TRUE(staged->put(named(tensors_of(seed), name)).ok());
        ASSERT_TRUE(staged->settle(settled).ok());
        ASSERT_TRUE(staged->staging().commit().ok());
        EXPECT_EQ(staged->content(), with(before, seed, names));
      }
    }
}

TEST_P(WeightStagingTest, MissingAreThoseThatDidNotCome) {
  const auto staged = serving(1);
  staged->begin();
  using Names = std::vector<std::string>;
  EXPECT_EQ(staged->staging().missing(), Names({"embed", "q", "k", "v", "o", "n", "m"}));
  for (const char* name : {"k", "embed", "n"}) ASSERT_TRUE(staged->put(named(tensors_of(2), name)).ok());
  ASSERT_TRUE(staged->put_sparse("o", {1}, {1.0f}).ok());
  ASSERT_TRUE(staged->put_sparse("m", {}, {}).ok());
  EXPECT_EQ(staged->staging().missing(), Names({"q", "v"}));
  EXPECT_EQ(staged->staging().missing(true), Names({"q", "v", "o", "m"}));
}

TEST_P(WeightStagingTest, ALaterTensorReplacesAnEarlierAndElementsGoOnTop) {
  const auto staged = serving(1);
  staged->begin();
  Content expected = with(staged->content(), 3, {"q", "n"});
  // Replaced whole: by themselves and over elements.
  ASSERT_TRUE(staged->put_sparse("q", {0, 199}, {5.0f, 6.0f}).ok());
  ASSERT_TRUE(staged->put_sparse("n", {4}, {5.0f}).ok());
  for (const unsigned seed : {2, 3})
    for (const char* name : {"q", "n"}) ASSERT_TRUE(staged->put(named(tensors_of(seed), name)).ok());
  // On top of what came, of what is served, and of other elements.
  for (const char* name : {"q", "o", "n"}) {
    const auto last = static_cast<int32_t>(staged->shape(name).num_elements() - 1);
    ASSERT_TRUE(staged->put_sparse(name, {0, 1, last}, {1.5f, 2.5f, 3.5f}).ok());
    ASSERT_TRUE(staged->put_sparse(name, {1, 2}, {-1.0f, -2.0f}).ok());
    for (const auto& [index, value] : {std::pair{0, 1.5f}, {last, 3.5f}, {1, -1.0f}, {2, -2.0f}})
      set(expected, name, index, value);
  }
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->content(), expected);
}

TEST_P(WeightStagingTest, ElementsOfATensorWhoseMatrixIsCopied) {
  for (const bool settled : {false, true}) {
    const auto staged = serving(1);
    Content expected = with(staged->content(), 2, {"q"});
    staged->begin();
    ASSERT_TRUE(staged->put_sparse("k", {3, 69}, {1.0f, 2.0f}).ok());
    ASSERT_TRUE(staged->put(named(tensors_of(2), "q")).ok());
    ASSERT_TRUE(staged->settle(settled).ok());
    ASSERT_TRUE(staged->put_sparse("k", {3, 4}, {3.0f, 4.0f}).ok());
    for (const auto& [index, value] : {std::pair{3, 3.0f}, {4, 4.0f}, {69, 2.0f}}) set(expected, "k", index, value);
    ASSERT_TRUE(staged->staging().commit().ok());
    EXPECT_EQ(staged->content(), expected);
  }
}

TEST_P(WeightStagingTest, OfAnIndexThatComesTwiceTheLastValueCounts) {
  std::mt19937 random(3);
  std::vector<int32_t> indices;
  std::vector<float> values;
  for (int i = 0; i < 500; ++i) {
    indices.push_back(static_cast<int32_t>(random() % 231));
    values.push_back(static_cast<float>(i));
  }
  indices.resize(231), values.resize(231);  // as many as it has elements
  for (const auto mode : {WeightUpdateMode::kDoubleBuffer, WeightUpdateMode::kInPlace}) {
    const auto staged = serving(1, mode);
    Content expected = staged->content();
    for (size_t i = 0; i < indices.size(); ++i) set(expected, "o", indices[i], values[i]);
    staged->begin();
    ASSERT_TRUE(staged->put_sparse("o", indices, values).ok());
    ASSERT_TRUE(staged->staging().commit().ok());
    EXPECT_EQ(staged->content(), expected);
  }
}

TEST_P(WeightStagingTest, WhatIsRefusedChangesNothing) {
  const auto staged = serving(1);
  const Content before = staged->content();
  staged->begin();
  const auto refused = [&](const Status& status, const std::string& says) {
    ASSERT_FALSE(status.ok()) << says;
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(status.error().message.find(says), std::string::npos) << status.error().message;
  };
  refused(staged->put_sparse("o", {0, 231}, {1.0f, 2.0f}), "expected an index of 0 to 230, got 231");
  refused(staged->put_sparse("o", {-1}, {1.0f}), "got -1");
  refused(staged->put_sparse("n", {5}, {1.0f}), "expected an index of 0 to 4, got 5");
  refused(staged->put_sparse("o", {1}, {1.0f}, 2), "expected 16 bytes, got 8");
  refused(staged->put_sparse("o", {1}, {1.0f}, -1), "updates");
  refused(staged->put_sparse("o", {1}, {1.0f}, 232), "expected 0 to 231 updates, got 232");
  refused(staged->put({"o", "F32", "", std::string(7, 'a')}), "expected 924 bytes, got 7");
  refused(staged->put({"o", "I16", "", std::string(462, 'a')}), "expected dtype float32, bfloat16 or float16");
  const auto check = [&](const std::vector<TensorSpec>& specs) { return staged->staging().check(specs); };
  const TensorSpec good{.name = "o", .dtype = DType::kFloat16, .shape = Shape{33, 7}, .num_updates = {}};
  TensorSpec unknown = good, turned = good, tied = good;
  unknown.name = "nope";
  turned.shape = Shape{7, 33};
  tied.name = "head";
  refused(check({good, unknown}), "no module or parameter named \"nope\"");
  refused(check({good, good}), "named twice");
  refused(check({turned}), "expected shape [33, 7], got [7, 33]");
  refused(check({tied}), "expected shape [40, 6]");
  EXPECT_TRUE(check({good}).ok());
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->content(), before);
}

TEST_P(WeightStagingTest, ADroppedSessionLeavesTheOldBits) {
  const auto staged = serving(1);
  const Content before = staged->content();
  for (const size_t count : {1, 4, 7}) {
    staged->begin();
    const auto tensors = tensors_of(2);
    for (size_t i = 0; i < count; ++i) ASSERT_TRUE(staged->put(tensors[i]).ok());
    ASSERT_TRUE(staged->put_sparse("o", {1}, {1.0f}).ok());
    EXPECT_FALSE(staged->staging().drop());
    EXPECT_EQ(staged->content(), before);
    // What is late, or of another session, touches nothing.
    EXPECT_EQ(staged->put(tensors[0]).error().kind, ErrorKind::kConflict);
    const uint64_t old = staged->session();
    staged->begin();
    EXPECT_EQ(staged->put(old, tensors[0]).error().kind, ErrorKind::kConflict);
    EXPECT_EQ(staged->staging().settle(old).error().kind, ErrorKind::kConflict);
    EXPECT_EQ(staged->staging().missing().size(), 7u);
    ASSERT_TRUE(staged->staging().commit().ok());
    EXPECT_EQ(staged->content(), before);
  }
  staged->begin();
  for (const TestTensor& tensor : tensors_of(3)) ASSERT_TRUE(staged->put(tensor).ok());
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->content(), cold(3));
}

TEST_P(WeightStagingTest, InPlaceTensorsAreServedAsTheyCome) {
  const auto staged = serving(1, WeightUpdateMode::kInPlace);
  EXPECT_EQ(staged->content(), cold(1));
  EXPECT_EQ(staged->staging().resident_bytes(), 0u);
  const Content before = staged->content();
  staged->begin();
  EXPECT_FALSE(staged->put_sparse("o", {500}, {1.0f}).ok());
  EXPECT_FALSE(staged->staging().drop());
  EXPECT_EQ(staged->content(), before);
  for (const char* name : {"q", "n"}) {
    staged->begin();
    ASSERT_TRUE(staged->put(named(tensors_of(2), name)).ok());
    EXPECT_EQ(staged->content().at(name), cold(2).at(name));
    EXPECT_TRUE(staged->staging().drop());
    staged->begin();
    ASSERT_TRUE(staged->put_sparse(name, {1}, {1.0f}).ok());
    EXPECT_TRUE(staged->staging().drop());
  }
  staged->begin();
  for (const TestTensor& tensor : tensors_of(3)) ASSERT_TRUE(staged->put(tensor).ok());
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->content(), cold(3));
  staged->begin();
  EXPECT_FALSE(staged->staging().drop());
}

TEST_P(WeightStagingTest, TheSecondCopyIsMadeOnceAndGivenBack) {
  const auto staged = serving(1);
  const size_t whole = staged->staging().resident_bytes();
  EXPECT_GT(whole, 0u);
  staged->begin();
  for (const TestTensor& tensor : tensors_of(2)) ASSERT_TRUE(staged->put(tensor).ok());
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->staging().resident_bytes(), whole);
  staged->staging().release();
  EXPECT_EQ(staged->staging().resident_bytes(), 0u);
  EXPECT_EQ(staged->content(), cold(2));
  staged->begin();
  ASSERT_TRUE(staged->put(named(tensors_of(3), "k")).ok());
  EXPECT_LT(staged->staging().resident_bytes(), whole);  // of that matrix alone
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->content(), with(cold(2), 3, {"k"}));
}

TEST_P(WeightStagingTest, AHeadThatIsItsEmbeddingIsSkipped) {
  for (const auto mode : {WeightUpdateMode::kDoubleBuffer, WeightUpdateMode::kInPlace})
    for (const bool head_first : {false, true})
      for (const bool settled : {false, true}) {
        const auto staged = serving(1, mode);
        staged->begin();
        const TestTensor embed = named(tensors_of(2), "embed"), head = named(tensors_of(2), "embed", "head");
        ASSERT_TRUE(staged->put(head_first ? head : embed).ok());
        ASSERT_TRUE(staged->put(head_first ? embed : head).ok());
        ASSERT_TRUE(staged->settle(settled).ok());
        ASSERT_TRUE(staged->staging().commit().ok());
        EXPECT_EQ(staged->content(), with(cold(1), 2, {"embed"}));
      }
}

TEST_P(WeightStagingTest, AHeadThatIsNotIsRefusedByName) {
  const auto staged = serving(1);
  const Content before = staged->content();
  const auto refused = [&] {
    const Status status = staged->staging().commit();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(status.error().message.find("\"head\""), std::string::npos) << status.error().message;
    EXPECT_EQ(staged->content(), before);
  };
  TestTensor embed = named(tensors_of(2), "embed"), head = named(tensors_of(2), "embed", "head");
  for (const bool settled : {false, true}) {
    staged->begin();
    ASSERT_TRUE(staged->put(head).ok());  // alone: its embedding stays
    refused();
    ASSERT_TRUE(staged->put(embed).ok());
    ASSERT_TRUE(staged->settle(settled).ok());
    // One element more, however it comes.
    ASSERT_TRUE(staged->put_sparse("embed", {239}, {7.0f}).ok());
    refused();
    ASSERT_TRUE(staged->put(embed).ok());
    TestTensor other = head;
    other.bytes.back() = static_cast<char>(other.bytes.back() ^ 0x40);
    ASSERT_TRUE(staged->put(other).ok());
    refused();
    EXPECT_FALSE(staged->staging().drop());
  }
  // Put right within the session.
  staged->begin();
  ASSERT_TRUE(staged->put(head).ok());
  refused();
  ASSERT_TRUE(staged->put(embed).ok());
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->content(), with(cold(1), 2, {"embed"}));
}

TEST_P(WeightStagingTest, ElementsOfAHeadAreThoseOfItsEmbedding) {
  const auto staged = serving(1);
  Content expected = staged->content();
  staged->begin();
  ASSERT_TRUE(staged->put_sparse("head", {100, 3}, {2.0f, 1.0f}).ok());
  EXPECT_FALSE(staged->staging().commit().ok());
  ASSERT_TRUE(staged->put_sparse("embed", {3, 50, 100}, {1.0f, 9.0f, 2.0f}).ok());
  for (const auto& [index, value] : {std::pair{3, 1.0f}, {50, 9.0f}, {100, 2.0f}}) set(expected, "embed", index, value);
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->content(), expected);

  // A whole head over an embedding that has elements only, and elements over a whole head.
  staged->begin();
  ASSERT_TRUE(staged->put_sparse("embed", {3}, {4.0f}).ok());
  ASSERT_TRUE(staged->put(named(tensors_of(1), "embed", "head")).ok());
  EXPECT_FALSE(staged->staging().commit().ok());
  ASSERT_TRUE(staged->put(named(tensors_of(1), "embed")).ok());
  const Status on_top = staged->put_sparse("head", {3}, {4.0f});
  ASSERT_FALSE(on_top.ok());
  EXPECT_EQ(on_top.error().kind, ErrorKind::kInvalidArgument);
  ASSERT_TRUE(staged->staging().commit().ok());
  EXPECT_EQ(staged->content(), with(expected, 1, {"embed"}));
}

INSTANTIATE_TEST_SUITE_P(DTypes, WeightStagingTest, testing::Values(DType::kBFloat16, DType::kFloat16, DType::kFloat32),
                         [](const auto& info) { return std::string(torch_name(info.param)); });

}  // namespace
}  // namespace unspool
