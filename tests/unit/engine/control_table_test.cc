// Every command in every situation does what its cell says, and docs/control.md says the same.
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "control_harness.h"

namespace unspool {
namespace {

// Brings a fresh engine into the situation, by commands where there are any.
void enter(ControlHarness& h, Situation situation, Record& running) {
  switch (situation) {
    case Situation::kAwake:
      break;
    case Situation::kPausedNew:
      h.pause(PauseMode::kAbort);
      break;
    case Situation::kPausedAll:
      h.pause(PauseMode::kKeep);
      break;
    case Situation::kDraining:
      h.add(running, request_of(random_prompt(5, 1), 10));
      h.step(2);
      h.control.pause(PauseMode::kWait, true, nullptr);
      break;
    case Situation::kDiscarded:
      h.sleep(2);
      h.wake();
      break;
    case Situation::kUpdateOpen:
      h.start_update();
      break;
    case Situation::kUpdateOpenKvAsleep:
      h.sleep(1);
      h.wake({{"weights"}});
      h.start_update();
      break;
    case Situation::kUpdateWriting:
      h.start_update();
      h.hold_for_update();
      h.memory.write();
      break;
    case Situation::kUpdateWritingKvAsleep:
      h.sleep(1);
      h.wake({{"weights"}});
      h.start_update();
      h.hold_for_update();
      h.memory.write();
      break;
    case Situation::kKvCacheAsleep:
      h.sleep(1);
      h.wake({{"weights"}});
      break;
    case Situation::kKvCacheAsleepDiscarded:
      h.sleep(2);
      h.wake({{"weights"}});
      break;
    case Situation::kWeightsAsleep1:
      h.sleep(1);
      h.wake({{"kv_cache"}});
      break;
    case Situation::kWeightsAsleep2:
      h.sleep(2);
      h.wake({{"kv_cache"}});
      break;
    case Situation::kAsleep1:
      h.sleep(1);
      break;
    case Situation::kAsleep2:
      h.sleep(2);
      break;
    case Situation::kFailed:
      h.core.fail_all();
      break;
  }
  h.settle();
}

// What came of a command: pending, done, or the kind of its error.
struct Reply {
  bool pending = false;
  std::optional<ErrorKind> error;
};

template <class T>
Reply reply_of(const Answer<T>& answer) {
  return {answer.pending(), answer.error_kind()};
}

// The command, with everything in flight ended where it waits for that.
template <class T, class F>
Reply drain(ControlHarness& h, Outcome outcome, F command) {
  Answer<T> answer;
  command(answer.callback());
  if (outcome == Outcome::kDrained) h.run();
  h.settle();
  return reply_of(answer);
}

Reply issue(ControlHarness& h, Command command, Outcome outcome, Record& request, PauseMode mode) {
  const auto pause = [&](auto callback) { h.control.pause(mode, true, callback); };
  const auto sleep = [&](int level) {
    return [&h, mode, level](auto callback) { h.control.sleep(level, mode, callback); };
  };
  switch (command) {
    case Command::kPauseAbort:
    case Command::kPauseWait:
    case Command::kPauseKeep:
      return drain<Result<PauseReply>>(h, outcome, pause);
    case Command::kResume:
      return reply_of(h.resume());
    case Command::kSleep0:
      return drain<Result<SleepReply>>(h, outcome, sleep(0));
    case Command::kSleep1:
      return drain<Result<SleepReply>>(h, outcome, sleep(1));
    case Command::kSleep2:
      return drain<Result<SleepReply>>(h, outcome, sleep(2));
    case Command::kWakeAll:
      return reply_of(h.wake());
    case Command::kWakeWeights:
      return reply_of(h.wake({{"weights"}}));
    case Command::kWakeKvCache:
      return reply_of(h.wake({{"kv_cache"}}));
    case Command::kWakeScheduling:
      return reply_of(h.wake({{"scheduling"}}));
    case Command::kWakeUnknown:
      return reply_of(h.wake({{"weights", "nope"}}));
    case Command::kReleaseKvCache:
      return reply_of(h.release_kv_cache());
    case Command::kResetPrefixCache:
      return reply_of(h.reset_prefix_cache(true));
    case Command::kAbort:
      return reply_of(h.abort());
    case Command::kUpdateWeightVersion:
      return reply_of(h.set_version("v2"));
    case Command::kReloadWeights:
      return reply_of(h.reload("a"));
    case Command::kWeightChecksums:
      return reply_of(h.checksums());
    case Command::kZeroWeights:
      return reply_of(h.zero_weights());
    case Command::kStartUpdate:
      return reply_of(h.start_update());
    case Command::kHoldForUpdate:
      return reply_of(h.hold_for_update());
    case Command::kFinishUpdate:
      return reply_of(h.finish_update());
    case Command::kDropUpdate:
      return reply_of(h.drop_update());
    case Command::kRequest:
      break;
  }
  h.add(request, request_of(random_prompt(5, 2), 3));
  if (outcome == Outcome::kDone) h.run();
  h.step();
  return {!request.finished(), request.error ? std::optional(request.error->kind) : std::nullopt};
}

void expect_reply(const Reply& reply, Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
    case Outcome::kDrained:
    case Outcome::kNothing:
      EXPECT_FALSE(reply.pending);
      EXPECT_FALSE(reply.error);
      return;
    case Outcome::kWaits:
      EXPECT_TRUE(reply.pending);
      return;
    case Outcome::kConflict:
      EXPECT_EQ(reply.error, ErrorKind::kConflict);
      return;
    case Outcome::kInternal:
      EXPECT_EQ(reply.error, ErrorKind::kInternal);
      return;
    case Outcome::kUnavailable:
      EXPECT_EQ(reply.error, ErrorKind::kUnavailable);
      return;
  }
}

void visit(Command command, Situation situation, PauseMode mode) {
  SCOPED_TRACE(std::string(to_string(command)) + " while " + to_string(situation));
  ControlHarness h;
  h.memory.in_place = true;  // what holds in both modes, and what only in this one
  Record running, request;
  enter(h, situation, running);
  ASSERT_EQ(h.situation(), situation);
  const bool was_draining = situation == Situation::kDraining;
  const Cell cell = h.core.state().cell(command);

  expect_reply(issue(h, command, cell.outcome, request, mode), cell.outcome);
  EXPECT_STREQ(to_string(h.situation()), to_string(cell.next));
  EXPECT_EQ(h.control.status().sleeping, h.core.state().status().sleeping);
  EXPECT_EQ(h.memory.weights_released, h.core.state().weights_asleep());
  EXPECT_EQ(h.memory.kv_cache_released, h.core.state().kv_cache_asleep());
  EXPECT_EQ(h.memory.update.has_value(), h.core.state().update_open());
  if (h.situation() == Situation::kFailed) return;

  // Wherever it is by now, it is no dead end: a wake and a reload bring it back, and every request is answered.
  EXPECT_TRUE(h.drop_update().ok());
  EXPECT_EQ(h.memory.update, std::nullopt);
  EXPECT_TRUE(h.wake().ok());
  EXPECT_TRUE(h.reload("a").ok());
  EXPECT_EQ(h.situation(), Situation::kAwake);
  h.run();
  EXPECT_EQ(running.finished(), was_draining);
  EXPECT_EQ(request.finished(), command == Command::kRequest);
  Record after;
  h.add(after, request_of(random_prompt(20, 9), 8));
  h.run();
  Record want = alone_under(FakeMemory::weights_of("a"), request_of(random_prompt(20, 9), 8));
  expect_same(after, want);
}

TEST(ControlTable, EveryCell) {
  for (int c = 0; c < kNumCommands; ++c) {
    for (int s = 0; s < kNumSituations; ++s) {
      const auto command = static_cast<Command>(c);
      const auto mode = command == Command::kPauseWait   ? PauseMode::kWait
                        : command == Command::kPauseKeep ? PauseMode::kKeep
                                                         : PauseMode::kAbort;
      visit(command, static_cast<Situation>(s), mode);
    }
  }
}

TEST(ControlTable, SleepsInEveryModeEndAlike) {
  for (const Command command : {Command::kSleep1, Command::kSleep2}) {
    for (int s = 0; s < kNumSituations; ++s) {
      visit(command, static_cast<Situation>(s), PauseMode::kKeep);
      if (static_cast<Situation>(s) != Situation::kDraining)
        visit(command, static_cast<Situation>(s), PauseMode::kWait);
    }
  }
}

TEST(ControlTable, ThePageSaysTheSame) {
  const std::string path = std::string(UNSPOOL_TEST_DATA) + "/../../docs/control.md";
  if (std::getenv("UNSPOOL_UPDATE_DOCS") != nullptr) std::ofstream(path) << control_page();
  const auto page = read_file(path);
  ASSERT_TRUE(page.ok()) << path;
  EXPECT_EQ(*page, control_page()) << "write it anew with UNSPOOL_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace unspool
