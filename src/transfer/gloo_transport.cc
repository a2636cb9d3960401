#include "transfer/gloo_transport.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "transfer/transfer_python.h"

namespace unspool {
namespace {

// In the child; see Child::spawn().
constexpr const char* kSocketFd = "3";
constexpr const char* kMemoryFd = "4";
// The child knows better than we do what it waits for: it is given less time, so that it can say so. torch takes up to
// two seconds beyond a timeout to report it.
constexpr double kReplySeconds = 3;

double time_for_child(const TransferLimit& limit) {
  const double remaining_s = limit.remaining_s();
  return std::max(remaining_s - kReplySeconds, remaining_s / 2);
}

std::string init_command(const InitInfo& info, double timeout_s) {
  JsonWriter w;
  w.begin_object();
  w.key("command");
  w.string("init");
  w.key("master_address");
  w.string(info.master_address);
  w.key("master_port");
  w.integer(info.master_port);
  w.key("rank");
  w.integer(info.rank);
  w.key("world_size");
  w.integer(info.world_size);
  w.key("timeout_s");
  w.number(timeout_s);
  w.end_object();
  return std::move(w).str();
}

void write_tensor(JsonWriter& w, const TensorSpec& spec, size_t offset) {
  w.begin_object();
  w.key("dtype");
  w.string(torch_name(spec.dtype));
  w.key("numel");
  w.integer(spec.shape.num_elements());
  w.key("num_updates");
  spec.num_updates ? w.integer(*spec.num_updates) : w.null();
  w.key("offset");
  w.integer(static_cast<int64_t>(offset));
  w.key("nbytes");
  w.integer(static_cast<int64_t>(spec.size_bytes()));
  w.end_object();
}

std::string receive_command(const UpdateInfo& update, const Packing& packing, const std::vector<size_t>& offsets,
                            size_t size_bytes, double timeout_s) {
  JsonWriter w;
  w.begin_object();
  w.key("command");
  w.string("receive");
  w.key("tensors");
  w.begin_array();
  for (size_t i = 0; i < offsets.size(); ++i) write_tensor(w, update.tensors[i], offsets[i]);
  w.end_array();
  w.key("packed");
  w.boolean(packing.is_packed());
  w.key("packed_buffer_size_bytes");
  w.integer(packing.buffer_bytes());
  w.key("size_bytes");
  w.integer(static_cast<int64_t>(size_bytes));
  w.key("timeout_s");
  w.number(timeout_s);
  w.end_object();
  return std::move(w).str();
}

// Either how many tensors are whole by now, or that it is over.
struct ChildReply {
  bool ok = false;
  int64_t received = 0;
};

Result<ChildReply> parse_reply(const std::string& line) {
  const auto document = JsonDocument::parse(line);
  if (document.ok()) {
    const JsonValue root = document->root();
    if (const auto error = root["error"].as_string()) return Error{ErrorKind::kTimeout, std::string(*error), {}};
    if (root["ok"].as_bool().value_or(false)) return ChildReply{.ok = true};
    if (const auto received = root["received"].as_int64()) return ChildReply{.received = *received};
  }
  return internal_error("expected \"ok\", \"received\" or \"error\" from the process, got " + line.substr(0, 200));
}

}  // namespace

Status GlooTransport::start() {
  UNSPOOL_ASSIGN(auto sockets, LineSocket::pair());
  UNSPOOL_ASSIGN(GrowingMemory memory, GrowingMemory::create());
  std::vector<std::string> command = command_;
  command.insert(command.end(), {"--socket-fd", kSocketFd, "--memory-fd", kMemoryFd});
  const int inherited[] = {sockets.second.get(), memory.fd()};
  UNSPOOL_ASSIGN(Child child, Child::spawn(command, transfer_environment(), inherited));
  side_.emplace(SideProcess{std::move(child), std::move(sockets.first), std::move(memory)});
  return {};
}

Error GlooTransport::failed(Error error) {
  const auto status = side_ ? side_->child.wait_status() : std::nullopt;
  if (status && error.kind == ErrorKind::kTimeout) error.message += " (" + describe_exit(*status) + ")";
  error.message = "gloo: " + error.message;
  shut_down();
  return error;
}

Status GlooTransport::init(const InitInfo& info, const TransferLimit& limit) {
  shut_down();
  UNSPOOL_TRY(start());
  packing_ = info.packing;
  const Status met = meet(info, limit);
  return met.ok() ? met : failed(met.error());
}

Status GlooTransport::meet(const InitInfo& info, const TransferLimit& limit) {
  UNSPOOL_TRY(side_->socket.send(init_command(info, time_for_child(limit)), limit));
  const std::string what =
      fmt::format("the group of {} met at {}:{}", info.world_size, info.master_address, info.master_port);
  UNSPOOL_ASSIGN(const std::string line, side_->socket.receive(limit, what));
  UNSPOOL_ASSIGN(const ChildReply reply, parse_reply(line));
  return reply.ok ? Status() : internal_error("expected \"ok\" from the process, got " + line.substr(0, 200));
}

Status GlooTransport::check(const UpdateInfo&) {
  if (side_ && side_->child.is_running()) return {};
  return internal_error("Gloo weight transfer not initialized. Call init_weight_transfer_engine() first.");
}

Status GlooTransport::receive(const UpdateInfo& update, const Sink& sink, const TransferLimit& limit) {
  UNSPOOL_TRY(check(update));
  const Status taken = take(update, sink, limit);
  return taken.ok() ? taken : failed(taken.error());
}

Status GlooTransport::take(const UpdateInfo& update, const Sink& sink, const TransferLimit& limit) {
  std::vector<size_t> offsets;
  size_t size_bytes = 0;
  for (const TensorSpec& spec : update.tensors) {
    offsets.push_back(size_bytes);
    size_bytes += spec.size_bytes();  // one behind the other, as they are in a packed chunk
  }
  UNSPOOL_TRY(side_->memory.grow(size_bytes));
  UNSPOOL_TRY(side_->socket.send(
      receive_command(update, update.packing.over(packing_), offsets, size_bytes, time_for_child(limit)), limit));
  const auto total = static_cast<int64_t>(offsets.size());
  int64_t done = 0;
  for (ChildReply reply; !reply.ok;) {
    const std::string what = fmt::format("{} tensors arrived ({} have)", total, done);
    UNSPOOL_ASSIGN(const std::string line, side_->socket.receive(limit, what));
    UNSPOOL_ASSIGN(reply, parse_reply(line));
    const int64_t whole = reply.ok ? total : reply.received;
    if (whole < done || whole > total) {
      return internal_error(fmt::format("expected {} to {} tensors from the process, got {}", done, total, whole));
    }
    for (; done < whole; ++done) {
      UNSPOOL_TRY(limit.check("the tensors were packed"));
      const auto i = static_cast<size_t>(done);
      UNSPOOL_TRY(sink(i, side_->memory.bytes().subspan(offsets[i], update.tensors[i].size_bytes())));
    }
  }
  return {};
}

bool GlooTransport::tend(bool asleep) {
  if (!side_) return false;
  if (asleep) side_->memory.drop_pages();  // the next update fills it anew
  if (side_->child.is_running() && !side_->socket.is_closed()) return true;
  const auto status = side_->child.wait_status();
  log_warning("gloo: the process that receives weights has ended{}; a trainer that comes next has to initialise anew",
              status ? " (" + describe_exit(*status) + ")" : "");
  shut_down();
  return false;
}

}  // namespace unspool
