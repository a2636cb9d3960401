#include "runner/runner_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <malloc.h>

#include <algorithm>

#include "base/check.h"
#include "base/sha256.h"
#include "weights/checkpoint_writer.h"

namespace unspool {
namespace {

Error conflict(std::string message) {
  return {ErrorKind::kConflict, std::move(message), {}};
}

// The field of a reload that a faulty checkpoint came by.
Error in_weights_path(Error error) {
  error.param = "weights_path";
  return error;
}

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;  // as Python's fnmatch, which knows no escapes
}

}  // namespace

RunnerMemory::RunnerMemory(ModelRunner& runner, Checkpoint checkpoint, ThreadPool& pool, RunnerMemoryOptions options,
                           WeightStaging* staging)
    : runner_(runner),
      weights_(runner.model().weights()),
      checkpoint_(std::move(checkpoint)),
      pool_(pool),
      options_(std::move(options)),
      staging_(staging) {}

Status RunnerMemory::back_up_weights() {
  UNSPOOL_CHECK(!released_, "a backup of weights that are released");
  backup_.reset();
  // A checkpoint that was written to while we were awake has what we serve no more.
  if (content_ == Content::kClean && checkpoint_.changed_file()) content_ = Content::kDirty;
  if (content_ == Content::kClean || options_.keep_in_memory) return {};
  size_t total = 0;
  const auto storage = weights_.storage();
  for (const auto bytes : storage) total += bytes.size();
  UNSPOOL_ASSIGN(SleepFile file, SleepFile::create(options_.sleep_directory, total));
  for (const auto bytes : storage) UNSPOOL_TRY(file.append(bytes));
  backup_ = std::move(file);
  return {};
}

Status RunnerMemory::release_weights(bool backed_up) {
  if (released_) return {};
  if (backed_up) {
    UNSPOOL_CHECK(content_ == Content::kClean || backup_.has_value() || options_.keep_in_memory, "there is no backup");
    if (content_ == Content::kClean || backup_.has_value()) weights_.release();
  } else {
    UNSPOOL_ASSIGN(preserved_, copy_preserved());
    backup_.reset();
    content_ = Content::kUndefined;
    weights_.release();
    weights_.zero();  // the vectors, which stay: nothing of the old weights shows
  }
  if (staging_ != nullptr) {
    staging_->release();
    ::malloc_trim(0);  // what sparse updates have freed, tens of MB
  }
  runner_.release_scratch();
  released_ = true;
  return {};
}

Result<std::vector<RunnerMemory::Preserved>> RunnerMemory::copy_preserved() const {
  const std::vector<Parameter>& parameters = weights_.parameters();
  std::vector<bool> wanted(parameters.size());
  for (const std::string& pattern : options_.preserve_names) {
    bool any = pattern.starts_with("draft.");  // a draft model's own parameters, which need not be there
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!matches(pattern, parameters[i].name)) continue;
      wanted[i] = true;
      any = true;
    }
    if (!any)
      return internal_error(fmt::format("--sleep-preserve-parameter-names: no parameter matches '{}'", pattern));
  }
  std::vector<Preserved> copies;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (wanted[i]) copies.push_back({i, weights_.read(parameters[i])});
  return copies;
}

Status RunnerMemory::restore_weights() {
  if (!released_) return {};
  UNSPOOL_TRY(allocate());
  released_ = false;
  if (backup_.has_value()) return read_backup();
  if (content_ == Content::kClean) return load_clean();
  defined_.clear();
  for (const Preserved& copy : preserved_) {
    const Parameter& parameter = weights_.parameters()[copy.parameter];
    weights_.write(parameter, copy.bytes);
    defined_.insert(parameter.name);
  }
  preserved_.clear();
  return {};
}

// All of it or nothing, so that a wake may be tried again.
Status RunnerMemory::allocate() {
  UNSPOOL_TRY(runner_.allocate_scratch());
  if (!weights_.is_released()) return {};  // kept in memory
  const Status status = weights_.allocate();
  if (!status.ok()) runner_.release_scratch();
  return status;
}

Status RunnerMemory::load_clean() {
  auto changed = checkpoint_.changed_file();
  if (!changed) {
    weights_.load(checkpoint_, [](size_t) {});
    changed = checkpoint_.changed_file();
    if (!changed) return {};
  }
  content_ = Content::kUndefined;
  return conflict(
      fmt::format("{} was changed while the weights that came from it were asleep: they cannot be brought back; "
                  "load weights before anything is generated",
                  *changed));
}

Status RunnerMemory::read_backup() {
  const auto storage = weights_.storage();
  std::vector<size_t> offsets;
  size_t offset = 0;
  for (const auto bytes : storage) {
    offsets.push_back(offset);
    offset += bytes.size();
  }
  std::vector<Status> results(storage.size());
  pool_.parallel_for(static_cast<int64_t>(storage.size()), [&](int64_t index, int) {
    const auto i = static_cast<size_t>(index);
    results[i] = backup_->read(offsets[i], storage[i]);
  });
  backup_.reset();  // its space is not ours while awake
  for (const Status& result : results) {
    if (result.ok()) continue;
    content_ = Content::kUndefined;
    return conflict(result.error().message);
  }
  return {};
}

Status RunnerMemory::reload_weights(const ReloadRequest& request) {
  if (!request.is_checkpoint_format) {
    return invalid_argument(
        "is_checkpoint_format: expected true, got false: weights are read by the names and shapes of a Hugging Face "
        "checkpoint",
        "is_checkpoint_format");
  }
  if (released_) return conflict("the weights are asleep: wake them first (tag weights)");
  auto opened = Checkpoint::open(request.weights_path.empty() ? checkpoint_.dir() : request.weights_path);
  if (!opened.ok()) return in_weights_path(opened.error());
  Checkpoint checkpoint = std::move(opened).value();
  if (Status status = weights_.check(checkpoint); !status.ok()) return in_weights_path(status.error());

  weights_.load(checkpoint, [](size_t) {});
  backup_.reset();
  if (const auto changed = checkpoint.changed_file()) {
    const std::string what = fmt::format("{} was changed while it was read", *changed);
    if (content_ == Content::kClean && !checkpoint_.changed_file()) {
      weights_.load(checkpoint_, [](size_t) {});
      return in_weights_path(conflict(what + ": the weights are those from before"));
    }
    content_ = Content::kUndefined;
    return internal_error(what + ": the weights are undefined until others are loaded");
  }
  checkpoint_ = std::move(checkpoint);
  content_ = Content::kClean;
  return {};
}

Status RunnerMemory::begin_update(uint64_t session) {
  if (staging_ == nullptr)
    return internal_error(
        "Weight transfer not configured. Please set weight_transfer_config to enable weight transfer.");
  UNSPOOL_CHECK(!released_, "an update of weights that are released");
  staging_->begin(session);
  return {};
}

std::vector<std::string> RunnerMemory::missing_from_update() const {
  if (content_ != Content::kUndefined) return staging_->missing();
  std::vector<std::string> missing;
  for (std::string& name : staging_->missing(true))
    if (!defined_.contains(name)) missing.push_back(std::move(name));
  return missing;
}

Result<bool> RunnerMemory::commit_update(bool partial) {
  const std::vector<std::string> missing = missing_from_update();
  if (!missing.empty() && !partial) {
    constexpr size_t kMaxListed = 10;
    const size_t listed = std::min(missing.size(), kMaxListed);
    return invalid_argument(fmt::format(
        "The update lacks {} of the model's {} tensors: {}{}. Send them{}, or say \"partial\": true to keep "
        "the old ones.",
        missing.size(), weights_.parameters().size(),
        fmt::join(missing.begin(), missing.begin() + static_cast<int64_t>(listed), ", "),
        missing.size() > listed ? ", ..." : "", content_ == Content::kUndefined ? " whole" : ""));
  }
  UNSPOOL_TRY(staging_->commit());
  backup_.reset();
  if (missing.empty() || content_ != Content::kUndefined) content_ = Content::kDirty;
  return content_ != Content::kUndefined;
}

bool RunnerMemory::drop_update() {
  if (staging_ == nullptr || !staging_->drop()) return false;
  content_ = Content::kUndefined;
  defined_.clear();
  return true;
}

Status RunnerMemory::save_weights(const SaveRequest& request) const {
  UNSPOOL_CHECK(!released_, "weights are saved while they are released");
  const std::vector<Parameter>& parameters = weights_.parameters();
  std::vector<TensorToWrite> tensors;
  tensors.reserve(parameters.size());
  for (const Parameter& parameter : parameters) tensors.push_back({parameter.name, weights_.dtype(), parameter.shape});
  return write_checkpoint({request.path, request.pattern, request.max_size}, tensors,
                          [&](size_t index, const TensorSink& sink) { weights_.read(parameters[index], sink); });
}

void RunnerMemory::zero_weights() {
  UNSPOOL_CHECK(!released_, "weights are zeroed while they are released");
  weights_.zero();
  backup_.reset();
  content_ = Content::kDirty;
}

std::map<std::string, std::string> RunnerMemory::weight_checksums() const {
  UNSPOOL_CHECK(!released_, "checksums of weights that are released");
  const std::vector<Parameter>& parameters = weights_.parameters();
  std::vector<std::string> digests(parameters.size());
  pool_.parallel_for(static_cast<int64_t>(parameters.size()), [&](int64_t i, int) {
    Sha256 hash;
    weights_.read(parameters[static_cast<size_t>(i)], [&](const void* bytes, size_t size) { hash.add(bytes, size); });
    digests[static_cast<size_t>(i)] = hash.hex();
  });
  std::map<std::string, std::string> checksums;
  for (size_t i = 0; i < parameters.size(); ++i) checksums.emplace(parameters[i].name, std::move(digests[i]));
  return checksums;
}

}  // namespace unspool
