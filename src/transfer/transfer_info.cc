#include "transfer/transfer_info.h"

#include <fmt/format.h>

#include <unordered_set>
#include <utility>

#include "transfer/info_reader.h"
#include "weights/quote.h"

namespace unspool {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();

void read_packing(InfoReader& reader, Packing& out) {
  reader.read("packed", out.packed);
  reader.read("packed_buffer_size_bytes", out.buffer_size_bytes, 1);
  // How many buffers a sender fills ahead; what crosses is the same for any number.
  std::optional<int64_t> num_buffers;
  reader.read("packed_num_buffers", num_buffers, 1);
}

// True, or the trainer means tensors as another engine lays them out in memory.
void read_checkpoint_format(InfoReader& reader, bool& is_given) {
  std::optional<bool> is_checkpoint_format;
  reader.read("is_checkpoint_format", is_checkpoint_format);
  is_given = is_checkpoint_format.has_value();
  if (is_checkpoint_format.value_or(true)) return;
  reader.fail("is_checkpoint_format",
              "expected true, got false: weights are taken by the names and shapes of a Hugging Face checkpoint");
}

Status refuse_device_handles(const JsonValue& info) {
  for (const std::string key : {"ipc_handles", "ipc_handles_pickled"}) {
    if (info[key].is_null()) continue;
    return invalid_argument(
        fmt::format("update_info.{}: handles of device memory cannot be opened here, and no pickle is ever read: {}; "
                    "ipc takes shm_name, offsets and nbytes",
                    key, kTransferBackends),
        "update_info." + key);
  }
  return {};
}

// Bytes that an update carries for the tensor; nullopt where they overflow.
std::optional<int64_t> carried_bytes(const TensorSpec& spec) {
  const auto elements = spec.shape.checked_num_elements();
  int64_t bytes = 0;
  const int64_t item = dtype_size(spec.dtype);
  if (!elements || __builtin_mul_overflow(*elements, item, &bytes)) return std::nullopt;
  // No more updates than elements, which is checked before: no overflow.
  return spec.num_updates ? *spec.num_updates * (static_cast<int64_t>(sizeof(int32_t)) + item) : bytes;
}

class TensorList {
 public:
  explicit TensorList(InfoReader& reader) : reader_(reader) {
    names_ = reader.require<std::vector<std::string>>("names");
    dtypes_ = reader.require<std::vector<std::string>>("dtype_names");
    shapes_ = reader.require<std::vector<std::vector<int64_t>>>("shapes");
    reader.read("num_updates_list", num_updates_);
    same_length("dtype_names", dtypes_.size());
    same_length("shapes", shapes_.size());
    if (num_updates_) same_length("num_updates_list", num_updates_->size());
  }

  void same_length(std::string_view key, size_t length) {
    if (length != names_.size()) {
      reader_.fail(key, fmt::format("expected {} entries, one for each of names, got {}", names_.size(), length));
    }
  }

  // After a reader without an error.
  Result<std::vector<TensorSpec>> specs() const {
    std::vector<TensorSpec> out;
    std::unordered_set<std::string_view> seen;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!seen.insert(names_[i]).second) {
        return fault("names", i, "expected each name once, got it twice");
      }
      UNSPOOL_ASSIGN(TensorSpec spec, one(i));
      out.push_back(std::move(spec));
    }
    return out;
  }

 private:
  Result<TensorSpec> one(size_t i) const {
    TensorSpec spec;
    spec.name = names_[i];
    const auto dtype = parse_torch_dtype(dtypes_[i]);
    if (!dtype || !is_float_weight(*dtype)) {
      return fault("dtype_names", i, "expected float32, bfloat16 or float16, got " + quote_name(dtypes_[i]));
    }
    spec.dtype = *dtype;
    if (shapes_[i].size() > Shape::kMaxRank) {
      return fault("shapes", i, fmt::format("expected at most {} extents, got {}", Shape::kMaxRank, shapes_[i].size()));
    }
    spec.shape = Shape(shapes_[i]);
    const auto elements = spec.shape.checked_num_elements();
    if (num_updates_ && elements) {
      spec.num_updates = (*num_updates_)[i];
      if (*spec.num_updates > *elements || *elements > kIntMax + 1) {
        return fault("num_updates_list", i,
                     fmt::format("expected at most the {} elements of {}, and indices that fit an int32, got {}",
                                 *elements, spec.shape.to_string(), *spec.num_updates));
      }
    }
    if (!carried_bytes(spec)) return fault("shapes", i, "the size of " + spec.shape.to_string() + " overflows");
    return spec;
  }

  Error fault(std::string_view key, size_t i, std::string_view message) const {
    const std::string at = fmt::format("update_info.{}", key);
    return invalid_argument(fmt::format("{}[{}] of {}: {}", at, i, quote_name(names_[i]), message), at);
  }

  InfoReader& reader_;
  std::vector<std::string> names_;
  std::vector<std::string> dtypes_;
  std::vector<std::vector<int64_t>> shapes_;
  std::optional<std::vector<int64_t>> num_updates_;
};

Status check_sizes(const std::vector<TensorSpec>& specs, const std::vector<int64_t>& sizes) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const int64_t bytes = *carried_bytes(specs[i]);
    if (sizes[i] == bytes) continue;
    const std::string what =
        specs[i].num_updates
            ? fmt::format("{} indices and values of {}", *specs[i].num_updates, torch_name(specs[i].dtype))
            : fmt::format("{} of {}", specs[i].shape.to_string(), torch_name(specs[i].dtype));
    return invalid_argument(fmt::format("update_info.nbytes[{}] of {}: expected {} bytes for {}, got {}", i,
                                        quote_name(specs[i].name), bytes, what, sizes[i]),
                            "update_info.nbytes");
  }
  return {};
}

}  // namespace

std::optional<TransferBackend> parse_transfer_backend(std::string_view name) {
  if (name == "ipc") return TransferBackend::kIpc;
  if (name == "gloo") return TransferBackend::kGloo;
  return std::nullopt;
}

Packing Packing::over(const Packing& base) const {
  return {packed ? packed : base.packed, buffer_size_bytes ? buffer_size_bytes : base.buffer_size_bytes};
}

Result<InitInfo> parse_init_info(TransferBackend backend, const JsonValue& info) {
  InfoReader reader(info, "init_info");
  InitInfo out;
  if (reader.has("nccl_unique_id_b64")) {
    return invalid_argument(fmt::format("init_info.nccl_unique_id_b64: there is no NCCL here: {}", kTransferBackends),
                            "init_info.nccl_unique_id_b64");
  }
  read_packing(reader, out.packing);
  if (backend == TransferBackend::kGloo) {
    out.master_address = reader.require<std::string>("master_address");
    if (out.master_address.empty()) reader.fail("master_address", "expected a host name or address, got \"\"");
    out.master_port = static_cast<int>(reader.require<int64_t>("master_port", 1, 65535));
    const auto rank = reader.require<int64_t>("rank_offset", 1, kIntMax);
    const auto world_size = reader.require<int64_t>("world_size", 2, kIntMax);
    if (rank >= world_size) {
      reader.fail("rank_offset", fmt::format("expected less than world_size ({}), got {}", world_size, rank));
    }
    out.rank = static_cast<int>(rank);
    out.world_size = static_cast<int>(world_size);
  }
  UNSPOOL_TRY(reader.finish());
  return out;
}

Result<UpdateInfo> parse_update_info(TransferBackend backend, const JsonValue& info) {
  if (info.is_array()) {
    const auto workers = info.elements();
    // A server with more workers than entries fails as the reference's does.
    if (workers.empty()) return internal_error("update_info: expected an entry for each of 1 workers, got 0");
    if (!workers[0].is_object()) {
      return invalid_argument("update_info[0]: expected an object, got " + fit_line(workers[0].dump()), "update_info");
    }
    return parse_update_info(backend, workers[0]);
  }
  UNSPOOL_TRY(refuse_device_handles(info));
  InfoReader reader(info, "update_info");
  UpdateInfo out;
  TensorList list(reader);
  read_packing(reader, out.packing);
  read_checkpoint_format(reader, out.is_whole_session);
  std::optional<bool> partial;
  reader.read("partial", partial);
  std::optional<std::string> session;
  reader.read("session", session);
  out.partial = partial.value_or(false);
  std::vector<int64_t> sizes;
  if (backend == TransferBackend::kIpc) {
    out.shm_name = reader.require<std::string>("shm_name");
    reader.read("offsets", out.offsets);
    if (out.offsets) list.same_length("offsets", out.offsets->size());
    const char* key = reader.has("tensor_sizes") && !reader.has("nbytes") ? "tensor_sizes" : "nbytes";
    sizes = reader.require<std::vector<int64_t>>(key);
    list.same_length(key, sizes.size());
  }
  UNSPOOL_TRY(reader.finish());
  UNSPOOL_ASSIGN(out.tensors, list.specs());
  if (backend == TransferBackend::kIpc) UNSPOOL_TRY(check_sizes(out.tensors, sizes));
  return out;
}

std::optional<std::string> parse_session_name(const JsonValue& info) {
  if (info.is_array()) return info.elements().empty() ? std::nullopt : parse_session_name(info.elements()[0]);
  const auto name = info["session"].as_string();
  return name ? std::optional<std::string>(*name) : std::nullopt;
}

}  // namespace unspool
