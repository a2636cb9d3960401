// Streams, disconnects, many connections, and the end of a server.
#include <atomic>

#include "server_fixture.h"

namespace unspool::http {
namespace {

TEST_F(ServerTest, StreamsChunksAsTheyAreWritten) {
  start();
  TestClient client = connect();
  client.post("/park", "");
  auto responder = parked(1)[0];
  responder->start(200, "text/event-stream; charset=utf-8", {{"x-id", "1"}});
  const Reply head = client.read_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(head.headers.at("x-id"), "1");
  for (const char* piece : {"data: 1\n\n", "data: 2\n\n"}) {
    responder->write(piece);
    EXPECT_EQ(client.read_chunk(), piece);
  }
  responder->write("");
  responder->write("data: [DONE]\n\n");
  responder->finish();
  EXPECT_EQ(client.read_chunk(), "data: [DONE]\n\n");
  EXPECT_EQ(client.read_chunk(), "");
  EXPECT_TRUE(eventually([&] { return responder->backlog_bytes() == 0; }));
  client.get("/health");
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(ServerTest, StreamToHttp10EndsWithTheConnection) {
  start();
  TestClient client = connect();
  client.send("POST /park HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
  auto responder = parked(1)[0];
  responder->start(200, "text/plain", {});
  responder->write("ab");
  responder->write("cd");
  responder->finish();
  EXPECT_EQ(client.read_reply().body, "abcd");
}

TEST_F(ServerTest, StreamDroppedHalfWayIsNotEnded) {
  start();
  TestClient client = connect();
  client.post("/park", "");
  auto responder = parked(1)[0];
  responder->start(200, "text/plain", {});
  responder->write("part");
  EXPECT_EQ(client.read_head().status, 200);
  EXPECT_EQ(client.read_chunk(), "part");
  responder.reset();
  EXPECT_EQ(client.read_until("\r\n"), "");
  EXPECT_TRUE(client.at_end());
}

TEST_F(ServerTest, ClientsThatLeaveAreNoticed) {
  start();
  const auto leave = [](int how, TestClient& client) {
    if (how == 0) client.close();
    if (how == 1) client.reset();
    if (how == 2) client.half_close();
  };
  for (const bool streaming : {false, true}) {
    for (int how = 0; how < 3; ++how) {
      TestClient client = connect();
      client.post("/park", "");
      auto responder = parked(1)[0];
      std::atomic<int> calls{0};
      responder->on_disconnect([&] { ++calls; });
      if (streaming) {
        responder->start(200, "text/plain", {});
        responder->write("x");
        client.read_head();
      }
      leave(how, client);
      const auto left = std::chrono::steady_clock::now();
      EXPECT_TRUE(eventually([&] { return calls == 1; })) << streaming << how;
      EXPECT_LT(std::chrono::steady_clock::now() - left, std::chrono::seconds(1));
      // Late answers do nothing, and a late callback runs at once.
      if (streaming) {
        responder->write("y");
        responder->finish();
      } else {
        responder->send({});
      }
      responder->on_disconnect([&] { ++calls; });
      EXPECT_EQ(calls, 2);
    }
  }
  EXPECT_TRUE(eventually([&] { return server_->open_connections() == 0 && observed().size() == 6; }));
  EXPECT_EQ(observed()[0], "POST /park 499");
  EXPECT_EQ(observed()[5], "POST /park 200");
}

TEST_F(ServerTest, CallbacksAreReleasedUncalledAfterTheAnswer) {
  start();
  TestClient client = connect();
  client.post("/park", "");
  auto responder = parked(1)[0];
  auto token = std::make_shared<int>();
  std::atomic<bool> called{false};
  responder->on_disconnect([token, &called] { called = true; });
  responder->send({200, "", "done", {}});
  EXPECT_EQ(client.read_reply().body, "done");
  EXPECT_TRUE(eventually([&] { return token.use_count() == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return server_->open_connections() == 0; }));
  EXPECT_FALSE(called);
  responder->on_disconnect([&] { called = true; });
  EXPECT_FALSE(called);
}

TEST_F(ServerTest, SlowReaderIsClosedAtTheBacklogLimit) {
  constexpr size_t kLimit = 256 * 1024;
  start({.max_stream_backlog_bytes = kLimit});
  TestClient client(server_->port(), 4096);
  client.post("/park", "");
  auto responder = parked(1)[0];
  std::atomic<bool> gone{false};
  responder->on_disconnect([&] { gone = true; });
  responder->start(200, "text/plain", {});
  const std::string piece(32 * 1024, 'x');
  size_t most = 0;
  // The kernel takes some megabytes before the backlog grows.
  for (int i = 0; i < 4000 && !gone; ++i) {
    responder->write(piece);
    most = std::max(most, responder->backlog_bytes());
    if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
  EXPECT_LE(most, kLimit + 2 * piece.size());
  EXPECT_TRUE(eventually([&] { return server_->open_connections() == 0; }));
}

TEST_F(ServerTest, SocketThatTakesNothingIsClosed) {
  start({.write_timeout_s = 1});
  TestClient client(server_->port(), 4096);
  client.post("/park", "");
  auto responder = parked(1)[0];
  std::atomic<bool> gone{false};
  responder->on_disconnect([&] { gone = true; });
  responder->send({200, "", std::string(30'000'000, 'x'), {}});
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

TEST_F(ServerTest, ThousandStreamsAtOnce) {
  start();
  const size_t descriptors = open_descriptors();
  constexpr size_t kStreams = 1000;
  constexpr int kTokens = 32;
  {
    std::vector<TestClient> clients;
    clients.reserve(kStreams);
    for (size_t i = 0; i < kStreams; ++i) {
      clients.push_back(connect());
      ASSERT_TRUE(clients.back().connected());
      clients.back().post("/park", "");
    }
    auto responders = parked(kStreams);
    ASSERT_EQ(responders.size(), kStreams);
    EXPECT_EQ(server_->open_connections(), kStreams);
    std::thread engine([&] {
      for (auto& responder : responders) responder->start(200, "text/event-stream", {});
      for (int token = 0; token < kTokens; ++token) {
        for (auto& responder : responders) responder->write("data: " + std::to_string(token) + "\n\n");
      }
      for (auto& responder : responders) responder->finish();
      responders.clear();
    });
    std::string expected;
    for (int token = 0; token < kTokens; ++token) expected += "data: " + std::to_string(token) + "\n\n";
    size_t right = 0;
    for (TestClient& client : clients) right += client.read_reply().body == expected;
    EXPECT_EQ(right, kStreams);
    engine.join();
  }
  EXPECT_TRUE(eventually([&] { return server_->open_connections() == 0; }));
  EXPECT_TRUE(eventually([&] { return open_descriptors() == descriptors; }));
}

TEST_F(ServerTest, KilledSocketsLeaveNothing) {
  start();
  const size_t descriptors = open_descriptors();
  std::atomic<int> gone{0};
  std::atomic<bool> stop{false};
  std::thread engine([&] {
    std::vector<std::shared_ptr<Responder>> streams;
    while (!stop) {
      {
        const std::lock_guard lock(mutex_);
        for (auto& responder : parked_) {
          responder->on_disconnect([&] { ++gone; });
          responder->start(200, "text/plain", {});
          streams.push_back(std::move(responder));
        }
        parked_.clear();
      }
      for (auto& stream : streams) stream->write("token");
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  for (int i = 0; i < 200; ++i) {
    TestClient client = connect();
    client.post("/park", "");
    if (i % 3 != 0) client.read_head();
    if (i % 2 == 0) client.reset();
  }
  EXPECT_TRUE(eventually([&] { return server_->open_connections() == 0; }));
  EXPECT_TRUE(server_->drain(1));
  stop = true;
  engine.join();
  EXPECT_TRUE(eventually([&] { return open_descriptors() == descriptors; }));
  EXPECT_GT(gone, 100);
}

TEST_F(ServerTest, DrainWaitsForAnswersInProgress) {
  start();
  TestClient idle = connect();
  idle.get("/health");
  idle.read_reply();
  TestClient busy = connect();
  busy.post("/park", "");
  auto responder = parked(1)[0];
  server_->stop_accepting();
  EXPECT_TRUE(idle.at_end());
  EXPECT_TRUE(eventually([&] { return !connect().connected(); }));
  EXPECT_FALSE(server_->drain(0.05));
  std::thread engine([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    responder->send({200, "", "last", {}});
  });
  EXPECT_TRUE(server_->drain(5));
  const Reply reply = busy.read_reply();
  EXPECT_EQ(reply.body, "last");
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_TRUE(busy.at_end());
  engine.join();
}

TEST_F(ServerTest, StopTellsAnswersInProgressAndRespondersOutliveTheServer) {
  start();
  TestClient whole = connect();
  whole.post("/park", "");
  TestClient stream = connect();
  stream.post("/park", "");
  auto responders = parked(2);
  std::atomic<int> gone{0};
  for (auto& responder : responders) responder->on_disconnect([&] { ++gone; });
  responders[1]->start(200, "text/plain", {});
  responders[1]->write("x");
  server_->stop();
  EXPECT_EQ(gone, 2);
  EXPECT_EQ(server_->open_connections(), 0u);
  EXPECT_TRUE(server_->drain(0));
  server_.reset();
  responders[0]->send({});
  responders[1]->write("y");
  responders.clear();
  EXPECT_TRUE(whole.at_end());
}

TEST_F(ServerTest, AnswersRaceWithDisconnectsAndStop) {
  for (int round = 0; round < 5; ++round) {
    start();
    std::vector<TestClient> clients;
    for (int i = 0; i < 40; ++i) {
      clients.push_back(connect());
      clients.back().post("/park", "");
    }
    auto responders = parked(40);
    std::thread engine([&] {
      for (size_t i = 0; i < responders.size(); ++i) {
        responders[i]->on_disconnect([] {});
        if (i % 2 == 0) {
          responders[i]->send({200, "", "x", {}});
        } else {
          responders[i]->start(200, "", {});
          responders[i]->write("x");
          responders[i]->finish();
        }
      }
      responders.clear();
    });
    for (size_t i = 0; i < clients.size(); i += 2) clients[i].reset();
    if (round % 2 == 0) server_->stop();
    engine.join();
    server_.reset();
  }
}

}  // namespace
}  // namespace unspool::http
