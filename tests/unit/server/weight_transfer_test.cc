// Sessions over a transport that does what a test tells it: their order, their limits, and that each is answered once.
#include "server/weight_transfer.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <stdexcept>

#include "backend/cpu/cpu_backend.h"
#include "base/clock.h"
#include "fake_control.h"

namespace unspool {
namespace {

using Calls = std::vector<std::string>;

struct Transport final : WeightTransport {
  std::function<Status(const TransferLimit&)> on_init = [](const TransferLimit&) { return Status(); };
  std::function<Status(const Sink&, const TransferLimit&)> on_receive = [](const Sink& sink, const TransferLimit&) {
    static constexpr float kValues[] = {1, 2, 3, 4};
    return sink(0, std::as_bytes(std::span(kValues)));
  };
  int given_up = 0;
  bool is_shut_down = false;

  Status init(const InitInfo&, const TransferLimit& limit) override { return on_init(limit); }
  Status check(const UpdateInfo& update) override {
    return update.shm_name == "bad" ? Status(invalid_argument("no such place")) : Status();
  }
  Status receive(const UpdateInfo&, const Sink& sink, const TransferLimit& limit) override {
    return on_receive(sink, limit);
  }
  void give_up() override { ++given_up; }
  void shut_down() override { is_shut_down = true; }
  bool tend() override { return false; }
};

class WeightTransferTest : public testing::Test {
 protected:
  static WeightSet one_vector(Backend& backend) {
    WeightSet weights(backend, DType::kFloat32);
    weights.add_vector({{"w", 4}});
    return weights;
  }

  WeightTransfer& transfer(double timeout_s = 30) {
    if (!transfer_) {
      auto owned = std::make_unique<Transport>();
      transport_ = owned.get();
      transfer_.emplace(control_, *staging_, TransferBackend::kIpc, std::move(owned), timeout_s,
                        WeightUpdateMetrics(nullptr, {}));
    }
    return *transfer_;
  }
  UpdateInfo whole() { return {.tensors = {{"w", DType::kFloat32, {4}, std::nullopt}}}; }
  // What a peer that never comes is like.
  void hang() {
    transport_->on_receive = [this](const WeightTransport::Sink&, const TransferLimit& limit) {
      hanging_.set_value();
      int ends[2];
      EXPECT_EQ(pipe(ends), 0);
      const Descriptor reading(ends[0]), writing(ends[1]);
      return limit.wait(reading.get(), POLLIN, "a peer came");
    };
  }

  using Answer = std::shared_ptr<std::promise<Status>>;
  // A reply, and what it will be. A second answer would throw.
  static std::pair<DoneCallback, std::future<Status>> asked() {
    const auto promise = std::make_shared<std::promise<Status>>();
    return {[promise](Status status) { promise->set_value(std::move(status)); }, promise->get_future()};
  }
  template <class F>
  Status answer(F ask) {
    auto [reply, status] = asked();
    ask(std::move(reply));
    return status.get();
  }
  Status start(bool partial = false) {
    const Status started = answer([&](DoneCallback reply) { transfer().start(partial, std::move(reply)); });
    // As the engine does.
    if (began_) staging_->drop();
    began_ = started.ok();
    if (began_) staging_->begin(control_.session);
    return started;
  }
  Status update(Result<UpdateInfo> info) {
    return answer([&](DoneCallback reply) { transfer().update(std::move(info), std::move(reply)); });
  }
  Status finish(std::optional<std::string> version = std::nullopt) {
    return answer([&](DoneCallback reply) { transfer().finish(std::move(version), std::move(reply)); });
  }
  Status init() {
    return answer([&](DoneCallback reply) { transfer().init(InitInfo(), std::move(reply)); });
  }

  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_ = cpu::CpuBackend::create(pool_, "").value();
  WeightSet weights_ = one_vector(*backend_);
  std::unique_ptr<WeightStaging> staging_ =
      std::make_unique<WeightStaging>(weights_, *backend_, WeightUpdateMode::kDoubleBuffer);
  FakeControl control_;
  Transport* transport_ = nullptr;
  std::promise<void> hanging_;
  bool began_ = false;
  std::optional<WeightTransfer> transfer_;  // last: its thread uses the others
};

TEST_F(WeightTransferTest, InOrder) {
  EXPECT_TRUE(init().ok());
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(update(whole()).ok());
  UpdateInfo rest = whole();
  rest.partial = true;
  EXPECT_TRUE(update(rest).ok());
  EXPECT_TRUE(finish("v2").ok());
  EXPECT_TRUE(start(true).ok());
  EXPECT_TRUE(finish().ok());
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(finish().ok());
  EXPECT_EQ(control_.calls,
            (Calls{"start", "finish 1 partial v2", "start", "finish 2 partial -", "start", "finish 3 whole -"}));
}

TEST_F(WeightTransferTest, OutOfOrder) {
  const Status early = update(whole());
  EXPECT_EQ(early.error().kind, ErrorKind::kInternal);
  EXPECT_EQ(early.error().message, "start_weight_update must be called before update_weights.");
  ASSERT_TRUE(start().ok());
  const Status refused = answer([&](DoneCallback reply) { transfer().shut_down(std::move(reply)); });
  EXPECT_EQ(refused.error().kind, ErrorKind::kInternal);
  control_.now.update_open = false;  // as after a sleep
  control_.error = Error{ErrorKind::kConflict, "weights are asleep", {}};
  EXPECT_EQ(update(whole()).error().kind, ErrorKind::kConflict);
  EXPECT_EQ(finish().error().kind, ErrorKind::kConflict);
  control_.error.reset();
  EXPECT_TRUE(answer([&](DoneCallback reply) { transfer().shut_down(std::move(reply)); }).ok());
  EXPECT_TRUE(transport_->is_shut_down);
}

TEST_F(WeightTransferTest, AFailedUpdateEndsTheSession) {
  int dropped = 0;
  const auto fails = [&](Result<UpdateInfo> info, const std::string& says) {
    ASSERT_TRUE(start().ok());
    const Status failed = update(std::move(info));
    ASSERT_FALSE(failed.ok());
    EXPECT_NE(failed.error().message.find(says), std::string::npos) << failed.error().message;
    EXPECT_TRUE(control_.calls.back().starts_with("drop")) << control_.calls.back();
    EXPECT_EQ(transport_->given_up, ++dropped);
  };
  fails(invalid_argument("words"), "words");
  UpdateInfo unknown = whole();
  unknown.tensors[0].name = "x";
  fails(unknown, "x");
  UpdateInfo elsewhere = whole();
  elsewhere.shm_name = "bad";
  fails(elsewhere, "no such place");
  transport_->on_receive = [](const WeightTransport::Sink&, const TransferLimit&) -> Status {
    throw std::runtime_error("a fault of ours");
  };
  fails(whole(), "a fault of ours");
}

TEST_F(WeightTransferTest, ALateOneIsCut) {
  transfer(0.1);
  hang();
  ASSERT_TRUE(start().ok());
  const Status late = update(whole());
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::kTimeout);
  EXPECT_TRUE(control_.calls.back().starts_with("drop 1")) << control_.calls.back();
}

TEST_F(WeightTransferTest, AnInitOvertakesWhatWasAskedBefore) {
  transfer();
  hang();
  ASSERT_TRUE(start().ok());
  auto [reply, running] = asked();
  auto [reply2, queued] = asked();
  transfer().update(whole(), reply);
  ASSERT_EQ(hanging_.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  transfer().start(false, reply2);
  EXPECT_TRUE(init().ok());
  EXPECT_EQ(running.get().error().kind, ErrorKind::kConflict);
  EXPECT_EQ(queued.get().error().kind, ErrorKind::kConflict);
  transport_->on_receive = [](const WeightTransport::Sink&, const TransferLimit&) { return Status(); };
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(update(whole()).ok());
}

TEST_F(WeightTransferTest, AnInitEndsAnOpenSessionAndOneOfNoMeaningDoesNot) {
  ASSERT_TRUE(start().ok());
  const Status refused =
      answer([&](DoneCallback reply) { transfer().init(invalid_argument("no port"), std::move(reply)); });
  EXPECT_EQ(refused.error().message, "no port");
  EXPECT_TRUE(control_.now.update_open);
  EXPECT_TRUE(init().ok());
  EXPECT_FALSE(control_.now.update_open);
}

TEST_F(WeightTransferTest, TheEndCutsWhatIsUnderWay) {
  transfer();
  hang();
  ASSERT_TRUE(start().ok());
  auto [reply, running] = asked();
  auto [reply2, queued] = asked();
  transfer().update(whole(), reply);
  ASSERT_EQ(hanging_.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  transfer().finish(std::nullopt, reply2);
  transfer().stop();
  EXPECT_EQ(running.get().error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(queued.get().error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(start().error().kind, ErrorKind::kUnavailable);
}

TEST_F(WeightTransferTest, ASessionThatHearsNothingIsDropped) {
  transfer(0.1);
  ASSERT_TRUE(start().ok());
  const double started_s = monotonic_seconds();
  while (!control_.dropped && monotonic_seconds() - started_s < 10) usleep(1000);
  EXPECT_TRUE(control_.dropped);
  EXPECT_LT(monotonic_seconds() - started_s, 5);
}

TEST_F(WeightTransferTest, AWholeSessionInOneUpdate) {
  UpdateInfo info = whole();
  info.is_whole_session = true;
  transport_ = nullptr;
  transfer();
  transport_->on_receive = [](const WeightTransport::Sink&, const TransferLimit&) { return Status(); };
  EXPECT_TRUE(update(info).ok());
  EXPECT_EQ(control_.calls, (Calls{"start", "finish 1 whole -"}));
  transport_->on_receive = [](const WeightTransport::Sink&, const TransferLimit&) {
    return Status(Error{ErrorKind::kTimeout, "gone", {}});
  };
  EXPECT_EQ(update(info).error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(control_.calls.back(), "drop 2: gone");
  // Inside a session it is an update like others.
  ASSERT_TRUE(start().ok());
  transport_->on_receive = [](const WeightTransport::Sink&, const TransferLimit&) { return Status(); };
  EXPECT_TRUE(update(info).ok());
  EXPECT_EQ(control_.calls.back(), "start");
}

TEST_F(WeightTransferTest, InPlaceTheEngineIsHeldBeforeTheFirstByte) {
  staging_ = std::make_unique<WeightStaging>(weights_, *backend_, WeightUpdateMode::kInPlace);
  transfer();
  transport_->on_receive = [this](const WeightTransport::Sink&, const TransferLimit&) {
    EXPECT_EQ(control_.calls.back(), "hold 1");
    return Status();
  };
  ASSERT_TRUE(start().ok());
  EXPECT_TRUE(update(whole()).ok());
  EXPECT_EQ(control_.calls, (Calls{"start", "hold 1"}));
}

}  // namespace
}  // namespace unspool
