#include "http/server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "http/session.h"

namespace unspool::http {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;
using net::local::stream_protocol;

using TcpAcceptor = net::basic_socket_acceptor<tcp, Strand>;
using UnixAcceptor = net::basic_socket_acceptor<stream_protocol, Strand>;

// Thousands of clients may connect within one round; the kernel cuts this to net.core.somaxconn (4096).
constexpr int kBacklog = 4096;
// After an accept failed (no descriptors left, most likely) others have to close first.
constexpr std::chrono::milliseconds kAcceptPause{100};
// A peer whose machine vanished is noticed after 60 + 6 * 10 seconds of silence.
constexpr int kKeepAliveIdleSeconds = 60;
constexpr int kKeepAliveIntervalSeconds = 10;
constexpr int kKeepAliveProbes = 6;

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void set_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

// "127.0.0.1:54321" or "[::1]:54321"; empty for a Unix socket or a peer that has gone already.
std::string remote_name(const net::basic_stream_socket<tcp, Strand>& socket) {
  error_code ec;
  const tcp::endpoint peer = socket.remote_endpoint(ec);
  if (ec) return {};
  const std::string address = peer.address().to_string();
  return peer.address().is_v6() ? fmt::format("[{}]:{}", address, peer.port())
                                : fmt::format("{}:{}", address, peer.port());
}
std::string remote_name(const net::basic_stream_socket<stream_protocol, Strand>&) {
  return {};
}

void tune(net::basic_stream_socket<tcp, Strand>& socket) {
  const int handle = socket.native_handle();
  set_option(handle, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(handle, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(handle, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  set_option(handle, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  set_option(handle, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
}
void tune(net::basic_stream_socket<stream_protocol, Strand>&) {}

// The addresses to try in turn, the first that can be bound wins.
std::vector<tcp::endpoint> endpoints(net::io_context& context, const std::string& host, uint16_t port, error_code& ec) {
  if (host.empty() || host == "::") return {{tcp::v6(), port}, {tcp::v4(), port}};
  tcp::resolver resolver(context);
  std::vector<tcp::endpoint> found;
  const auto results = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  for (const auto& entry : results) found.push_back(entry.endpoint());
  std::stable_partition(found.begin(), found.end(), [](const auto& e) { return e.address().is_v4(); });
  return found;
}

error_code listen(TcpAcceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (ec) return ec;
  acceptor.set_option(net::socket_base::reuse_address(true), ec);
  if (!ec && endpoint.address().is_v6() && endpoint.address().is_unspecified()) {
    acceptor.set_option(net::ip::v6_only(false), ec);
  }
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(kBacklog, ec);
  if (ec) {
    error_code ignored;
    acceptor.close(ignored);
  }
  return ec;
}

// A socket file that nobody listens on is left over from a process that died.
void remove_stale_socket(net::io_context& context, const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return;
  stream_protocol::socket probe(context);
  error_code ec;
  probe.connect(stream_protocol::endpoint(path), ec);
  if (ec == net::error::connection_refused) unlink(path.c_str());
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServerOptions options) : hub(std::make_shared<Hub>(std::move(options))) {}

  Status listen_tcp();
  Status listen_unix();
  template <class Acceptor>
  void accept(Acceptor& acceptor);
  void adopt(StreamSocket socket, std::string remote);
  void refuse_requests();

  const std::shared_ptr<Hub> hub;
  // The acceptors and the timer are used on this strand once the threads run.
  const Strand accept_strand = net::make_strand(hub->context);
  TcpAcceptor tcp_acceptor{accept_strand};
  UnixAcceptor unix_acceptor{accept_strand};
  StreamTimer pause{accept_strand};
  std::optional<net::executor_work_guard<net::io_context::executor_type>> work;
  std::vector<std::thread> threads;
  uint16_t port = 0;
};

Status Server::Impl::listen_tcp() {
  const ServerOptions& options = hub->options;
  error_code ec = net::error::host_not_found;
  for (const tcp::endpoint& endpoint : endpoints(hub->context, options.host, options.port, ec)) {
    ec = listen(tcp_acceptor, endpoint);
    if (ec) continue;
    port = tcp_acceptor.local_endpoint().port();
    accept(tcp_acceptor);
    return {};
  }
  return Error{
      ErrorKind::kUnavailable, fmt::format("cannot listen on {}:{}: {}", options.host, options.port, ec.message()), {}};
}

Status Server::Impl::listen_unix() {
  const std::string& path = hub->options.unix_socket;
  error_code ec;
  remove_stale_socket(hub->context, path);
  unix_acceptor.open(stream_protocol(), ec);
  // endpoint's constructor throws on a path that is too long for the system.
  if (!ec && path.size() >= sizeof(sockaddr_un::sun_path)) ec = net::error::name_too_long;
  if (!ec) unix_acceptor.bind(stream_protocol::endpoint(path), ec);
  if (!ec) unix_acceptor.listen(kBacklog, ec);
  if (ec) {
    error_code ignored;
    unix_acceptor.close(ignored);
    return Error{ErrorKind::kUnavailable, fmt::format("cannot listen on {}: {}", path, ec.message()), {}};
  }
  accept(unix_acceptor);
  return {};
}

template <class Acceptor>
void Server::Impl::accept(Acceptor& acceptor) {
  acceptor.async_accept(net::make_strand(hub->context), [this, &acceptor](error_code ec, auto socket) {
    if (ec == net::error::operation_aborted || !acceptor.is_open()) return;
    if (!ec) {
      tune(socket);
      std::string remote = remote_name(socket);
      adopt(StreamSocket(std::move(socket)), std::move(remote));
    } else if (ec != net::error::connection_aborted) {
      log_warning("cannot accept connections: {}", ec.message());
      pause.expires_after(kAcceptPause);
      pause.async_wait([this, &acceptor](error_code cancelled) {
        if (!cancelled && acceptor.is_open()) accept(acceptor);
      });
      return;
    }
    accept(acceptor);
  });
}

void Server::Impl::adopt(StreamSocket socket, std::string remote) {
  const auto session = std::make_shared<Session>(hub, std::move(socket), std::move(remote));
  if (hub->add(session)) session->run();
}

void Server::Impl::refuse_requests() {
  {
    const std::lock_guard lock(hub->mutex);
    hub->draining->store(true);
  }
  net::post(accept_strand, [this] {
    error_code ignored;
    tcp_acceptor.close(ignored);
    if (unix_acceptor.is_open()) {
      unix_acceptor.close(ignored);
      unlink(hub->options.unix_socket.c_str());
    }
    pause.cancel();
  });
}

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Server::~Server() {
  stop();
}

void Server::route(std::string method, std::string path, Handler handler) {
  impl_->hub->router.add(std::move(method), std::move(path), std::move(handler));
}
void Server::set_filter(Filter filter) {
  impl_->hub->filter = std::move(filter);
}
void Server::set_observer(Observer observer) {
  impl_->hub->observer = std::move(observer);
}
uint16_t Server::port() const {
  return impl_->port;
}

Status Server::start() {
  raise_descriptor_limit();
  UNSPOOL_TRY(impl_->hub->options.unix_socket.empty() ? impl_->listen_tcp() : impl_->listen_unix());
  impl_->work.emplace(impl_->hub->context.get_executor());
  for (int i = 0; i < std::max(impl_->hub->options.io_threads, 1); ++i) {
    impl_->threads.emplace_back([&context = impl_->hub->context] {
      pthread_setname_np(pthread_self(), "http-io");
      while (true) {
        try {
          context.run();
          return;
        } catch (const std::exception& error) {
          // Of one connection, which its deadlines will close; the others go on.
          log_error("an HTTP connection failed: {}", error.what());
        }
      }
    });
  }
  return {};
}

size_t Server::open_connections() const {
  const std::lock_guard lock(impl_->hub->mutex);
  return impl_->hub->sessions.size();
}

void Server::stop_accepting() {
  if (impl_->threads.empty()) return;
  impl_->refuse_requests();
  for (const auto& session : impl_->hub->snapshot()) session->close_if_idle();
}

bool Server::drain(double timeout_s) {
  Hub& hub = *impl_->hub;
  std::unique_lock lock(hub.mutex);
  return hub.answer_ended.wait_for(lock, std::chrono::duration<double>(timeout_s),
                                   [&] { return hub.answers_in_progress == 0; });
}

void Server::stop() {
  if (impl_->threads.empty()) return;
  impl_->refuse_requests();
  for (const auto& session : impl_->hub->snapshot()) session->close_now();
  // Every socket and timer ends now, so the threads run out of work.
  impl_->work.reset();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
  // What handlers hold must not live as long as the last responder.
  impl_->hub->router = {};
  impl_->hub->filter = nullptr;
  impl_->hub->observer = nullptr;
}

}  // namespace unspool::http
