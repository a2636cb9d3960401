#include "transfer/line_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace unspool {
namespace {

// Answers are a few words.
constexpr size_t kMaxLineBytes = 64 * 1024;

Error gone() {
  return {ErrorKind::kTimeout, "the process has ended", {}};
}

}  // namespace

Result<std::pair<LineSocket, Descriptor>> LineSocket::pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return internal_error(std::string("no socket pair: ") + std::strerror(errno));
  }
  return std::pair(LineSocket(Descriptor(ends[0])), Descriptor(ends[1]));
}

Status LineSocket::send(std::string line, const TransferLimit& limit) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    UNSPOOL_TRY(limit.wait(socket_.get(), POLLOUT, "the process took its command"));
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR && errno != EAGAIN) return gone();
    if (sent > 0) rest.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Result<std::string> LineSocket::receive(const TransferLimit& limit, std::string_view what) {
  while (true) {
    if (const size_t end = read_.find('\n'); end != read_.npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    if (read_.size() > kMaxLineBytes) {
      return internal_error(fmt::format("expected a line of at most {} bytes from the process", kMaxLineBytes));
    }
    UNSPOOL_TRY(limit.wait(socket_.get(), POLLIN, what));
    char piece[4096];
    const ssize_t got = ::recv(socket_.get(), piece, sizeof(piece), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return gone();
    if (got > 0) read_.append(piece, static_cast<size_t>(got));
  }
}

bool LineSocket::is_closed() const {
  char next = 0;
  return ::recv(socket_.get(), &next, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

}  // namespace unspool
