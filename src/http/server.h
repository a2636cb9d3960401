// An HTTP/1.1 server: connections, limits, streaming, disconnects. Knows nothing of models. Beast and Asio stay in the
// .cc files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace unspool::http {

struct HttpRequest {
  std::string method;  // "GET", "POST", ... as sent
  std::string path;    // decoded, without the query and without a trailing slash ("/" stays)
  std::string query;   // raw, without '?'
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::string remote;  // "127.0.0.1:54321"

  // The first header of that (lower-case) name, or nullptr.
  const std::string* header(std::string_view lower_name) const;
  // Decoded query parameters in order; a name may repeat.
  std::vector<std::pair<std::string, std::string>> query_parameters() const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type;  // empty: no Content-Type header
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // extra ones
};

// The answer to one request, from any thread. Exactly one of send() or start()..finish(). Calls after the client went
// away do nothing. Destroying the last handle without an answer sends a 500, and in the middle of a stream breaks the
// connection.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(HttpResponse response) = 0;
  // Streaming with chunked transfer encoding. write() never blocks; each call's bytes leave as one piece unless the
  // client is slow, then pieces are merged. finish() ends the body.
  virtual void start(int status, std::string content_type,
                     std::vector<std::pair<std::string, std::string>> headers) = 0;
  virtual void write(std::string bytes) = 0;
  virtual void finish() = 0;
  // Bytes accepted by write() that the socket has not taken yet. A connection whose backlog passes
  // ServerOptions::max_stream_backlog_bytes is closed, which counts as a disconnect.
  virtual size_t backlog_bytes() const = 0;
  // `callback` runs once, on an I/O thread, if the client goes away before the answer is complete (at once and on the
  // calling thread if it has already). It is released, called or not, as soon as the answer is complete or the client
  // gone.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};

using Handler = std::function<void(HttpRequest request, std::shared_ptr<Responder> responder)>;
// Runs before the route's handler; returns true if it has answered (e.g. 401). Unknown paths pass it too.
using Filter = std::function<bool(const HttpRequest& request, Responder& responder)>;
// Called when an answer is complete or its client has gone: method, route pattern (empty if none), status, seconds
// since the request was read. The status of a client that left before there was an answer is 499.
using Observer = std::function<void(std::string_view method, std::string_view route, int status, double seconds)>;

struct ServerOptions {
  std::string host = "0.0.0.0";  // "" or "::" listen on all addresses of both families where the system allows
  uint16_t port = 8000;          // 0: any free port, see Server::port()
  std::string unix_socket{};     // --uds, instead of host and port
  int io_threads = 2;
  size_t max_header_bytes = 64 * 1024;
  size_t max_body_bytes = 256 * 1024 * 1024;
  size_t max_stream_backlog_bytes = 16 * 1024 * 1024;
  int keep_alive_s = 65;      // an idle connection is closed after this
  int header_timeout_s = 30;  // from the first byte of a request to the end of its headers
  int body_timeout_s = 120;   // without progress
  int write_timeout_s = 120;  // a socket that takes nothing for this long is closed
};

// Routes by exact path, with and without a trailing slash. Unknown path: 404 {"detail":"Not Found"}; known path, other
// method: 405 {"detail":"Method Not Allowed"} with Allow. Too long a header 431, body 413, malformed request 400, all
// JSON {"detail":...}.
class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();
  void route(std::string method, std::string path, Handler handler);  // before start()
  void set_filter(Filter filter);
  void set_observer(Observer observer);
  // Binds and starts the I/O threads. Errors name the address and the system's reason.
  Status start();
  uint16_t port() const;
  size_t open_connections() const;
  // Stops accepting new connections and new requests on kept ones; answers in progress go on.
  void stop_accepting();
  // Waits until no answer is in progress or `timeout_s` has passed; true if none is left.
  bool drain(double timeout_s);
  // Closes everything, which counts as a disconnect of answers in progress, and joins the threads. Not from an I/O
  // thread.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unspool::http
