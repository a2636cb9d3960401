// The side process, played by a script: what it is told, what is made of its answers, and that it can do no harm.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "transfer/gloo_transport.h"
#include "transfer/transfer_python.h"

namespace unspool {
namespace {

// Reads commands and answers by `behaviour`, in which `command` is the one and `say` answers.
constexpr const char* kScript = R"(
import json, mmap, os, signal, socket, sys, time
assert sys.argv[1:] == ["--socket-fd", "3", "--memory-fd", "4"], sys.argv
connection = socket.socket(fileno=3)
def say(**fields):
    connection.sendall(json.dumps(fields).encode() + b"\n")
def write(at, data):
    mmap.mmap(4, 0)[at:at + len(data)] = data
for line in connection.makefile():
    command = json.loads(line)
    if command["command"] == "init" and not {early}:
        say(ok=True)
        continue
{behaviour}
)";

class GlooTransportTest : public testing::Test {
 protected:
  void play(std::string behaviour, bool early = false) {
    std::string indented = "    " + behaviour;
    for (size_t at = 0; (at = indented.find('\n', at)) != indented.npos; at += 5) indented.replace(at, 1, "\n    ");
    script_ = testing::TempDir() + fmt::format("side_process_{}.py", getpid());
    std::string text = kScript;
    text.replace(text.find("{early}"), 7, early ? "True" : "False");
    text.replace(text.find("{behaviour}"), 11, indented);
    std::ofstream(script_) << text;
    transport_.emplace(std::vector<std::string>{"python3", script_});
  }
  Status init(double timeout_s = 30) {
    const InitInfo info{.master_address = "host", .master_port = 5, .rank = 1, .world_size = 2};
    return transport_->init(info, TransferLimit(timeout_s, interrupt_));
  }
  Status receive(double timeout_s = 30) {
    got_.clear();
    return transport_->receive(
        update_,
        [this](size_t i, std::span<const std::byte> bytes) {
          got_.push_back(
              fmt::format("{} {}", i, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
          return Status();
        },
        TransferLimit(timeout_s, interrupt_));
  }
  // Fails in this way, at once, and is not initialised then.
  void fails(ErrorKind kind, const std::string& says) {
    ASSERT_TRUE(init().ok());
    const double started_s = monotonic_seconds();
    const Status status = receive();
    ASSERT_FALSE(status.ok());
    EXPECT_LT(monotonic_seconds() - started_s, 20);
    EXPECT_EQ(status.error().kind, kind) << status.error().message;
    EXPECT_NE(status.error().message.find(says), std::string::npos) << status.error().message;
    EXPECT_NE(transport_->check(update_).error().message.find("not initialized"), std::string::npos);
    EXPECT_FALSE(transport_->tend(false));
  }

  std::string script_;
  std::optional<GlooTransport> transport_;
  Interrupt interrupt_;
  UpdateInfo update_{.tensors = {{"a", DType::kBFloat16, {2}, std::nullopt}, {"b", DType::kFloat32, {100}, 1}}};
  std::vector<std::string> got_;
};

TEST_F(GlooTransportTest, BringsTensorsAsTheyAreWhole) {
  play(R"(a, b = command["tensors"]
assert (a["dtype"], a["numel"], a["num_updates"], a["offset"], a["nbytes"]) == ("bfloat16", 2, None, 0, 4), a
assert (b["dtype"], b["numel"], b["num_updates"], b["offset"], b["nbytes"]) == ("float32", 100, 1, 4, 8), b
assert command["packed"] is False and command["packed_buffer_size_bytes"] == 1 << 30 and command["size_bytes"] == 12
assert 0 < command["timeout_s"] < 30
write(0, b"abcd")
say(received=1)
write(4, b"indxVALS")
say(ok=True))");
  ASSERT_TRUE(init().ok());
  EXPECT_TRUE(transport_->tend(false));
  for (int round = 0; round < 2; ++round) {
    const Status status = receive();
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(got_, (std::vector<std::string>{"0 abcd", "1 indxVALS"}));
  }
  transport_->shut_down();
  EXPECT_EQ(receive().error().kind, ErrorKind::kInternal);
}

TEST_F(GlooTransportTest, ItsErrorsAreAPeers) {
  play(R"(say(error="connection closed by peer"))");
  fails(ErrorKind::kTimeout, "gloo: connection closed by peer");
  play(R"(say(error="nobody at host:5"))", true);
  EXPECT_NE(init().error().message.find("nobody at host:5"), std::string::npos);
}

TEST_F(GlooTransportTest, ItsDeathIsAnError) {
  play("os._exit(3)");
  fails(ErrorKind::kTimeout, "ended");
  play("os.kill(os.getpid(), signal.SIGKILL)");
  fails(ErrorKind::kTimeout, "ended");
  play("os._exit(3)", true);
  EXPECT_EQ(init().error().kind, ErrorKind::kTimeout);
}

TEST_F(GlooTransportTest, NonsenseIsAnError) {
  for (const char* nonsense : {"say(received=3)", "say(received=1)\nsay(received=0)", "say(received=-1)", "say()",
                               "connection.sendall(b'{]\\n')", "connection.sendall(b'x' * 100000)"}) {
    play(nonsense);
    fails(ErrorKind::kInternal, "expected");
  }
}

TEST_F(GlooTransportTest, HangsNoLongerThanItMay) {
  play("while True: time.sleep(1)");
  ASSERT_TRUE(init().ok());
  double started_s = monotonic_seconds();
  const Status late = receive(0.2);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::kTimeout);
  EXPECT_NE(late.error().message.find("0.2 s"), std::string::npos) << late.error().message;
  EXPECT_LT(monotonic_seconds() - started_s, 5);
  // Nor where it does not even read what it is told.
  play("while True: time.sleep(1)", true);
  for (int i = 0; i < 20000; ++i) update_.tensors.push_back(update_.tensors[0]);
  EXPECT_EQ(init(0.2).error().kind, ErrorKind::kTimeout);
}

TEST_F(GlooTransportTest, IsCutByAnotherThread) {
  play("while True: time.sleep(1)");
  ASSERT_TRUE(init().ok());
  std::thread other([this] { interrupt_.set({ErrorKind::kConflict, "overtaken", {}}); });
  const Status cut = receive();
  other.join();
  EXPECT_EQ(cut.error().kind, ErrorKind::kConflict);
}

TEST_F(GlooTransportTest, TheSinksErrorEndsIt) {
  play("say(ok=True)");
  ASSERT_TRUE(init().ok());
  const Status refused = transport_->receive(
      update_, [](size_t, std::span<const std::byte>) { return Status(invalid_argument("no")); },
      TransferLimit(30, interrupt_));
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_FALSE(transport_->check(update_).ok());
}

TEST_F(GlooTransportTest, CannotTakeMemoryFromUnderUs) {
  play(R"(try:
    os.ftruncate(4, 0)
except PermissionError:
    say(ok=True)
else:
    say(error="it shrank"))");
  ASSERT_TRUE(init().ok());
  EXPECT_TRUE(receive().ok());
}

TEST_F(GlooTransportTest, HasNothingOfOursButWhatItNeeds) {
  const Descriptor open(::open("/dev/null", O_RDONLY));  // one that exec would leave open
  play(R"(mask = [line for line in open("/proc/self/status") if line.startswith(("SigBlk", "SigIgn"))]
listed = set(os.listdir("/proc/self/fd"))
extra = [fd for fd in listed - {"0", "1", "2", "3", "4"} if os.path.exists("/proc/self/fd/" + fd)]
blocked = int(mask[0].split()[1], 16)
say(error="descriptors %s" % extra) if extra else say(error="signals %s" % mask) if blocked else say(ok=True))");
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  ASSERT_TRUE(init().ok());
  const Status status = receive();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST(TransferPython, IsNamedWhereItCannot) {
  EXPECT_NE(check_transfer_python("/nowhere/python").error().message.find("/nowhere/python"), std::string::npos);
  const std::string fake = testing::TempDir() + "fake_python";
  const auto says = [&](const std::string& script) {
    std::ofstream(fake) << "#!/bin/sh\n" << script;
    chmod(fake.c_str(), 0700);
    return check_transfer_python(fake);
  };
  EXPECT_TRUE(says("[ \"$*\" = '-m unspool.transfer --check' ]").ok());
  const Status lacks = says("echo Traceback >&2; echo there is no torch >&2; exit 1");
  EXPECT_NE(lacks.error().message.find("there is no torch"), std::string::npos);
  EXPECT_EQ(lacks.error().message.find("Traceback"), std::string::npos);
  EXPECT_NE(says("exit 7").error().message.find("status 7"), std::string::npos);
}

TEST(TransferPython, TakesNothingFromTheWorkingDirectory) {
  const auto environment = transfer_environment();
  EXPECT_EQ(std::count(environment.begin(), environment.end(), "PYTHONSAFEPATH=1"), 1);
}

TEST(TransferPython, FindsThePackageBesideTheProgram) {
  const std::string root = testing::TempDir() + fmt::format("tree_{}", getpid());
  for (const char* folder : {"/build/release", "/python/unspool/bin", "/elsewhere/bin"}) {
    std::filesystem::create_directories(root + folder);
  }
  std::ofstream(root + "/python/unspool/transfer.py") << "";
  EXPECT_EQ(package_directory(root + "/build/release/unspool"), root + "/python");
  EXPECT_EQ(package_directory(root + "/python/unspool/bin/unspool"), root + "/python");
  std::filesystem::remove(root + "/python/unspool/transfer.py");
  EXPECT_EQ(package_directory(root + "/build/release/unspool"), "");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace unspool
