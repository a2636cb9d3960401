// A blocking HTTP client over a plain socket, for tests that need to misbehave.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace unspool::http {

struct Reply {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string body;
};

class TestClient {
 public:
  explicit TestClient(uint16_t port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  explicit TestClient(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  TestClient(TestClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_), input_(std::move(other.input_)) {}
  ~TestClient() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void reset() {
    const linger abort{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    close();
  }
  void half_close() { shutdown(socket_, SHUT_WR); }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void get(const std::string& path, const std::string& method = "GET") {
    send(method + " " + path + " HTTP/1.1\r\nHost: test\r\n\r\n");
  }
  void post(const std::string& path, const std::string& body) {
    send("POST " + path + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body);
  }

  // Up to and without the delimiter; empty where the connection ends before it.
  std::string read_until(std::string_view delimiter) {
    size_t at;
    while ((at = input_.find(delimiter)) == std::string::npos) {
      if (!fill()) return {};
    }
    std::string text = input_.substr(0, at);
    input_.erase(0, at + delimiter.size());
    return text;
  }
  std::string read_exactly(size_t bytes) {
    while (input_.size() < bytes && fill()) {
    }
    std::string text = input_.substr(0, bytes);
    input_.erase(0, bytes);
    return text;
  }
  Reply read_head() {
    Reply reply;
    const std::string head = read_until("\r\n\r\n") + "\r\n";
    if (head.size() > 12) reply.status = std::atoi(head.c_str() + 9);
    for (size_t line = head.find("\r\n") + 2; line < head.size();) {
      const size_t end = head.find("\r\n", line);
      const size_t colon = head.find(": ", line);
      reply.headers[head.substr(line, colon - line)] = head.substr(colon + 2, end - colon - 2);
      line = end + 2;
    }
    return reply;
  }
  // One chunk; empty at the last, and where the connection ends.
  std::string read_chunk() {
    const size_t size = std::strtoul(read_until("\r\n").c_str(), nullptr, 16);
    std::string chunk = read_exactly(size);
    read_exactly(2);
    return chunk;
  }
  Reply read_reply(bool has_body = true) {
    Reply reply = read_head();
    if (!has_body) return reply;
    if (reply.headers.contains("transfer-encoding")) {
      for (std::string chunk; !(chunk = read_chunk()).empty();) reply.body += chunk;
    } else if (reply.headers.contains("content-length")) {
      reply.body = read_exactly(std::stoul(reply.headers["content-length"]));
    } else {
      while (fill()) {
      }
      reply.body = std::move(input_);
    }
    return reply;
  }
  // True once the server has closed; false if it has not within five seconds.
  bool at_end() {
    while (fill()) {
    }
    return ended_;
  }

 private:
  bool fill() {
    pollfd waiting{socket_, POLLIN, 0};
    if (poll(&waiting, 1, 5000) <= 0) return false;
    char bytes[65536];
    const ssize_t received = recv(socket_, bytes, sizeof(bytes), 0);
    if (received <= 0) ended_ = true;
    if (received > 0) input_.append(bytes, static_cast<size_t>(received));
    return received > 0;
  }

  int socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string input_;
};

}  // namespace unspool::http
