// Whole answers: routes, limits, framing, keep-alive.
#include <fstream>

#include "server_fixture.h"

namespace unspool::http {
namespace {

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  start();
  TestClient client = connect();
  for (int i = 0; i < 3; ++i) {
    client.post("/echo", R"({"a":1})");
    const Reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, R"({"a":1})");
    EXPECT_EQ(reply.headers.at("content-type"), "application/json");
    EXPECT_EQ(reply.headers.at("x-echo"), "yes");
    EXPECT_EQ(reply.headers.at("server"), "unspool");
    EXPECT_TRUE(reply.headers.at("date").ends_with(" GMT"));
    EXPECT_FALSE(reply.headers.contains("connection"));
  }
  client.get("/health/");
  const Reply health = client.read_reply();
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(health.headers.at("content-length"), "0");
  EXPECT_FALSE(health.headers.contains("content-type"));
  EXPECT_EQ(server_->open_connections(), 1u);
  EXPECT_TRUE(eventually([&] { return observed().size() == 4; }));
  EXPECT_EQ(observed().back(), "GET /health 200");
}

TEST_F(ServerTest, UnknownPathsAndMethods) {
  start();
  TestClient client = connect();
  for (const char* path : {"/", "/nothing", "//health", "/Health", "/health/x", "/health//", "/x/../health", "*"}) {
    client.get(path);
    const Reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_EQ(reply.body, R"({"detail":"Not Found"})");
    EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  }
  client.get("/echo");
  Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "POST");
  EXPECT_EQ(reply.body, R"({"detail":"Method Not Allowed"})");
  client.get("/health", "HEAD");
  reply = client.read_reply(false);
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "GET");
  client.get("/%68ealth?x=1");  // and no body was left from HEAD
  EXPECT_EQ(client.read_reply().status, 200);
  client.get("http://test/health");
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_EQ(observed()[0], "GET  404");
}

TEST_F(ServerTest, RequestsCarryWhatWasSent) {
  start();
  server_ = std::make_unique<Server>(ServerOptions{.host = "127.0.0.1", .port = 0});
  HttpRequest seen;
  server_->route("POST", "/a b", [&](HttpRequest request, auto responder) {
    seen = std::move(request);
    responder->send({});
  });
  ASSERT_TRUE(server_->start().ok());
  TestClient client = connect();
  client.send(
      "POST /a%20b/?k=1&k=%C3%A9+x&flag&=v HTTP/1.1\r\nX-Request-ID: r 1\r\nX-Twice: a\r\nx-twice: b\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.path, "/a b");
  EXPECT_EQ(seen.body, "abcde");
  EXPECT_EQ(*seen.header("x-request-id"), "r 1");
  EXPECT_EQ(*seen.header("x-twice"), "a");
  EXPECT_EQ(seen.header("absent"), nullptr);
  EXPECT_TRUE(seen.remote.starts_with("127.0.0.1:"));
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"k", "1"}, {"k", "\xC3\xA9 x"}, {"flag", ""}, {"", "v"}};
  EXPECT_EQ(seen.query_parameters(), expected);
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  TestClient client = connect();
  std::string requests;
  for (int i = 0; i < 50; ++i)
    requests += "POST /echo HTTP/1.1\r\nContent-Length: 2\r\n\r\n" + std::to_string(10 + i) + "\r\n";
  client.send(requests);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.read_reply().body, std::to_string(10 + i));
}

TEST_F(ServerTest, EarlyRequestWaitsForTheAnswerInProgress) {
  start();
  TestClient client = connect();
  client.post("/park", "");
  client.post("/echo", "second");
  auto responders = parked(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  responders[0]->send({200, "", "first", {}});
  EXPECT_EQ(client.read_reply().body, "first");
  EXPECT_EQ(client.read_reply().body, "second");
  // The second was taken up while a read was pending; what that read brings is not lost.
  for (const char* body : {"third", "fourth"}) {
    client.post("/echo", body);
    EXPECT_EQ(client.read_reply().body, body);
  }
}

TEST_F(ServerTest, RequestInManyPieces) {
  start();
  TestClient client = connect();
  const std::string request = "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
  for (const char c : request) {
    client.send(std::string(1, c));
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  EXPECT_EQ(client.read_reply().body, "hello");
}

TEST_F(ServerTest, LargeBodiesBothWays) {
  start();
  TestClient client = connect();
  std::string body(20'000'000, 'x');
  for (size_t i = 0; i < body.size(); i += 997) body[i] = static_cast<char>('a' + i % 26);
  std::thread sender([&] { client.post("/echo", body); });
  const Reply reply = client.read_reply();
  sender.join();
  EXPECT_TRUE(reply.body == body);
}

TEST_F(ServerTest, Expect100Continue) {
  start();
  TestClient client = connect();
  client.send("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.read_head().status, 100);
  client.send("body");
  EXPECT_EQ(client.read_reply().body, "body");
}

TEST_F(ServerTest, ConnectionCloseAndHttp10) {
  start();
  TestClient closing = connect();
  closing.send("GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(closing.read_reply().headers.at("connection"), "close");
  EXPECT_TRUE(closing.at_end());
  TestClient old = connect();
  old.send("POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(old.read_reply().body, "hi");
  EXPECT_TRUE(old.at_end());
}

TEST_F(ServerTest, LimitsAreRefusedWithTheirStatus) {
  start({.max_header_bytes = 4096, .max_body_bytes = 1000});
  const auto status_of = [&](const std::string& request) {
    TestClient client = connect();
    client.send(request);
    const Reply reply = client.read_reply();
    EXPECT_TRUE(reply.body.starts_with(R"({"detail":")")) << reply.body;
    EXPECT_EQ(reply.headers.at("connection"), "close");
    EXPECT_TRUE(client.at_end());
    return reply.status;
  };
  const std::string long_text(10000, 'x');
  EXPECT_EQ(status_of("GET /health HTTP/1.1\r\nX: " + long_text + "\r\n\r\n"), 431);
  EXPECT_EQ(status_of("GET /" + long_text + " HTTP/1.1\r\n\r\n"), 431);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nContent-Length: 1001\r\n\r\n"), 413);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n"), 413);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'b')), 413);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, 'b')),
            413);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + long_text), 431);
  EXPECT_EQ(status_of("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /health HTTP/2.0\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 400);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 400);
}

TEST_F(ServerTest, SlowAndIdleConnectionsAreClosed) {
  start({.keep_alive_s = 1, .header_timeout_s = 1, .body_timeout_s = 1});
  TestClient idle = connect();
  TestClient slow_header = connect();
  slow_header.send("GET /health HT");
  TestClient slow_body = connect();
  slow_body.send("POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc");
  TestClient parked_client = connect();
  parked_client.post("/park", "");
  auto responders = parked(1);
  EXPECT_EQ(slow_header.read_reply().status, 408);
  EXPECT_EQ(slow_body.read_reply().status, 408);
  EXPECT_TRUE(idle.at_end());
  // An answer that takes its time is not idle.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  responders[0]->send({200, "", "late", {}});
  EXPECT_EQ(parked_client.read_reply().body, "late");
}

TEST_F(ServerTest, UnansweredAndFailedHandlersAre500) {
  start();
  TestClient client = connect();
  for (const char* path : {"/drop", "/throw"}) {
    client.post(path, "");
    const Reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(reply.body, R"({"detail":"Internal Server Error"})");
  }
  client.get("/health");
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(ServerTest, FilterAnswersFirst) {
  start();
  server_ = std::make_unique<Server>(ServerOptions{.host = "127.0.0.1", .port = 0});
  server_->route("GET", "/open", [](HttpRequest, auto responder) { responder->send({}); });
  server_->set_filter([](const HttpRequest& request, Responder& responder) {
    if (request.path == "/open") return false;
    responder.send({401, "application/json", R"({"error":"Unauthorized"})", {}});
    return true;
  });
  ASSERT_TRUE(server_->start().ok());
  TestClient client = connect();
  client.get("/v1/%6dodels");
  EXPECT_EQ(client.read_reply().status, 401);
  client.get("/open");
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(ServerTest, HeadersCannotBeInjected) {
  start();
  TestClient client = connect();
  client.post("/park", "");
  parked(1)[0]->send({200, "text/plain", "x", {{"x-request-id", "a\r\nset-cookie: b"}}});
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.headers.at("x-request-id"), "aset-cookie: b");
  EXPECT_FALSE(reply.headers.contains("set-cookie"));
}

TEST_F(ServerTest, UnixSocket) {
  const std::string path = (std::filesystem::temp_directory_path() / ("unspool-" + std::to_string(getpid()))).string();
  const auto make = [&] {
    auto server = std::make_unique<Server>(ServerOptions{.unix_socket = path});
    server->route("GET", "/health", [](HttpRequest, auto responder) { responder->send({200, "", "ok", {}}); });
    return server;
  };
  auto server = make();
  ASSERT_TRUE(server->start().ok());
  TestClient client(path);
  client.get("/health");
  EXPECT_EQ(client.read_reply().body, "ok");
  const Status second = make()->start();
  EXPECT_FALSE(second.ok());
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ServerTest, AddressInUseIsNamed) {
  start();
  Server second(ServerOptions{.host = "127.0.0.1", .port = server_->port()});
  const Status status = second.start();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "cannot listen on 127.0.0.1:" + std::to_string(server_->port()) + ": Address already in use");
  EXPECT_FALSE(Server(ServerOptions{.host = "not a host"}).start().ok());
}

TEST_F(ServerTest, AllAddresses) {
  for (const char* host : {"", "::", "0.0.0.0", "localhost"}) {
    server_ = std::make_unique<Server>(ServerOptions{.host = host, .port = 0});
    ASSERT_TRUE(server_->start().ok()) << host;
    EXPECT_TRUE(connect().connected()) << host;
  }
}

}  // namespace
}  // namespace unspool::http
