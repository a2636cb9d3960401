#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace unspool {

Scheduler::Scheduler(SchedulerConfig config, KvCacheManager& kv_cache) : config_(config), kv_cache_(kv_cache) {
  UNSPOOL_CHECK(config.max_num_seqs > 0 && config.max_num_batched_tokens > 0, "{} sequences, {} tokens",
                config.max_num_seqs, config.max_num_batched_tokens);
}

void Scheduler::add(Sequence& sequence) {
  sequence.state = SequenceState::kWaiting;
  waiting_.insert(&sequence);
  ++num_queued_;
  num_queued_tokens_ += sequence.num_tokens();
  if (!sequence.ready) ++num_unready_;
}

void Scheduler::set_ready(Sequence& sequence) {
  UNSPOOL_CHECK(!sequence.ready && sequence.state == SequenceState::kWaiting, "sequence {}", sequence.id);
  sequence.ready = true;
  --num_unready_;
}

void Scheduler::fork(Request& request) {
  const Sequence& parent = request.sequence(0);
  request.fork();
  for (int i = 1; i < request.num_sequences(); ++i) {
    Sequence& child = request.sequence(i);
    child.admitted_before = true;
    child.times.first_scheduled_s = parent.times.first_scheduled_s;
    child.weights_epoch = parent.weights_epoch;
    if (num_running() < config_.max_num_seqs) {
      kv_cache_.fork(parent.blocks, child.blocks);
      child.num_computed_tokens = parent.num_computed_tokens;
      insert_running(child);
    } else {
      waiting_.insert(&child);
    }
  }
}

void Scheduler::remove(Sequence& sequence, bool forget_output) {
  if (sequence.state == SequenceState::kWaiting) {
    leave_queue(sequence);
  } else if (sequence.state == SequenceState::kRunning) {
    running_.erase(std::lower_bound(running_.begin(), running_.end(), &sequence, InOrder()));
    kv_cache_.release(sequence.blocks, forget_output ? sequence.request.prompt_length() : sequence.num_tokens());
    if (in_step_) std::replace(scheduled_.begin(), scheduled_.end(), &sequence, static_cast<Sequence*>(nullptr));
  }
  sequence.num_scheduled_tokens = 0;
  sequence.state = SequenceState::kFinished;
}

const StepPlan& Scheduler::plan_step(double now_s) {
  UNSPOOL_CHECK(!in_step_);
  in_step_ = true;
  budget_ = config_.max_num_batched_tokens;
  short_of_blocks_ = false;
  if (pause_ != PauseState::kPausedAll) {
    schedule_running(/*decodes=*/true);
    schedule_running(/*decodes=*/false);
    admit(now_s);
  }
  fill_plan();
  return plan_;
}

void Scheduler::schedule_running(bool decodes) {
  // make_room() shortens running_ from its end, and never below i.
  for (int i = 0; i < num_running() && budget_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    const int wanted = sequence.num_tokens_to_compute();
    if ((wanted == 1) != decodes) continue;
    const int granted = make_room(sequence, std::min(wanted, budget_));
    if (granted == 0) {
      short_of_blocks_ = true;
      if (kv_cache_.blocks_for(sequence.num_computed_tokens + 1) <= kv_cache_.num_blocks()) continue;
      outgrown_.push_back(&sequence);
      remove(sequence);
      --i;
      continue;
    }
    sequence.num_scheduled_tokens = granted;
    budget_ -= granted;
  }
}

// Reserves blocks for as many of the next tokens as can be had; 0 where the sequence is the last and none are left.
int Scheduler::make_room(Sequence& sequence, int num_tokens) {
  const int start = sequence.num_computed_tokens;
  while (true) {
    const int granted = std::min(num_tokens, kv_cache_.reservable_end(sequence.blocks, start) - start);
    if (granted > 0) {
      UNSPOOL_CHECK(kv_cache_.reserve(sequence.blocks, start, start + granted));
      return granted;
    }
    if (running_.back() == &sequence) return 0;
    preempt_last();
  }
}

void Scheduler::preempt_last() {
  Sequence& victim = *running_.back();
  running_.pop_back();
  budget_ += victim.num_scheduled_tokens;
  victim.num_scheduled_tokens = 0;
  victim.num_computed_tokens = 0;
  ++victim.num_preemptions;
  kv_cache_.release(victim.blocks);
  victim.state = SequenceState::kWaiting;
  waiting_.insert(&victim);
  ++counters_.preemptions;
  short_of_blocks_ = true;
}

void Scheduler::preempt_all() {
  UNSPOOL_CHECK(!in_step_);
  while (!running_.empty()) preempt_last();
}

bool Scheduler::holds_mixed_weights() const {
  return std::any_of(running_.begin(), running_.end(),
                     [this](const Sequence* s) { return s->weights_epoch != weights_epoch_; });
}

bool Scheduler::has_work() const {
  switch (pause_) {
    case PauseState::kUnpaused:
      return num_running() + num_waiting() > num_unready_;
    case PauseState::kPausedNew:
      return num_in_flight() > 0;
    case PauseState::kPausedAll:
      break;
  }
  return false;
}

// The first in order that may begin or go on; null where none may.
Sequence* Scheduler::next_to_admit() const {
  const bool unpaused = pause_ == PauseState::kUnpaused;
  if (num_waiting() == (unpaused ? num_unready_ : num_queued_)) return nullptr;
  return *std::find_if(waiting_.begin(), waiting_.end(),
                       [&](const Sequence* s) { return unpaused ? s->ready : s->admitted_before; });
}

void Scheduler::admit(double now_s) {
  // Who is short of blocks admits no one who would take them.
  while (!short_of_blocks_ && budget_ > 0 && num_running() < config_.max_num_seqs) {
    Sequence* next = next_to_admit();
    if (next == nullptr) break;
    Sequence& first = *next;
    if (kv_cache_.blocks_for(first.num_tokens()) > kv_cache_.num_blocks()) {
      outgrown_.push_back(&first);
      remove(first);
      continue;
    }
    if (!admit_first(first, now_s)) break;
  }
}

bool Scheduler::admit_first(Sequence& sequence, double now_s) {
  if (refused_ == &sequence && !running_.empty() && kv_cache_.num_free_blocks() <= refused_at_free_) return false;
  const int free_before = kv_cache_.num_free_blocks();
  const int hit = kv_cache_.match_prefix(sequence.tokens(), sequence.request.spec().cache_salt,
                                         sequence.request.max_cached_tokens(sequence), sequence.blocks);
  // Room for all of it, not for the first chunk alone, and for a block more for each who runs: work begun under
  // scarcity is work lost to preemption.
  const int wanted = kv_cache_.blocks_for(sequence.num_tokens()) - static_cast<int>(sequence.blocks.blocks.size());
  const int kept = running_.empty() ? 0 : blocks_promised() + num_running();
  if (wanted + kept > kv_cache_.num_free_blocks()) {
    kv_cache_.release(sequence.blocks);
    refused_ = &sequence;
    refused_at_free_ = free_before;
    return false;
  }
  const int num_tokens = std::min(sequence.num_tokens() - hit, budget_);
  UNSPOOL_CHECK(kv_cache_.reserve(sequence.blocks, hit, hit + num_tokens));
  leave_queue(sequence);
  if (!sequence.admitted_before) {
    sequence.admitted_before = true;
    sequence.times.first_scheduled_s = now_s;
    sequence.request.num_cached_tokens = hit;
    counters_.prefix_queries += sequence.num_tokens();
    counters_.prefix_hits += hit;
  }
  if (sequence.weights_epoch != weights_epoch_) sequence.opens_span = true;
  sequence.weights_epoch = weights_epoch_;
  sequence.num_computed_tokens = hit;
  sequence.num_scheduled_tokens = num_tokens;
  budget_ -= num_tokens;
  insert_running(sequence);
  return true;
}

// Blocks that running sequences need before they have computed all the tokens they have.
int Scheduler::blocks_promised() const {
  int blocks = 0;
  for (const Sequence* sequence : running_) {
    blocks +=
        std::max(0, kv_cache_.blocks_for(sequence->num_tokens()) - static_cast<int>(sequence->blocks.blocks.size()));
  }
  return blocks;
}

void Scheduler::fill_plan() {
  scheduled_.clear();
  plan_.blocks_to_zero.clear();
  plan_.blocks_to_copy.clear();
  for (Sequence* sequence : running_) {
    if (sequence->num_scheduled_tokens == 0) continue;
    scheduled_.push_back(sequence);
    const BlockTable& table = sequence->blocks;
    if (table.copy_from != kNoBlock) plan_.blocks_to_copy.emplace_back(table.copy_from, table.blocks[table.first_new]);
    // What this step writes whole, or copies, needs no zeros below.
    const int filled = (sequence->num_computed_tokens + sequence->num_scheduled_tokens) / kv_cache_.block_size();
    const int first = std::max(filled, table.first_new + (table.copy_from != kNoBlock ? 1 : 0));
    for (int i = first; i < static_cast<int>(table.blocks.size()); ++i) plan_.blocks_to_zero.push_back(table.blocks[i]);
  }
  plan_.sequences.resize(scheduled_.size());  // keeps the capacity of what stays
  for (size_t i = 0; i < scheduled_.size(); ++i) fill(plan_.sequences[i], *scheduled_[i]);
}

void Scheduler::fill(ScheduledSequence& scheduled, const Sequence& sequence) const {
  const int start = sequence.num_computed_tokens;
  const int end = start + sequence.num_scheduled_tokens;
  scheduled.sequence_id = sequence.id;
  scheduled.start = start;
  scheduled.token_ids.resize(end - start);
  sequence.tokens().copy(start, end - start, scheduled.token_ids.data());
  scheduled.block_table.assign(sequence.blocks.blocks.begin(), sequence.blocks.blocks.end());
  scheduled.logits_rows.clear();
  const int last_prompt_row = sequence.request.prompt_length() - 1;
  for (int p = std::max(start, sequence.request.first_wanted_prompt_row()); p < std::min(end, last_prompt_row); ++p) {
    scheduled.logits_rows.push_back(p - start);
  }
  if (end == sequence.num_tokens()) scheduled.logits_rows.push_back(end - 1 - start);
}

void Scheduler::commit_step() {
  in_step_ = false;
  for (Sequence* sequence : scheduled_) {
    if (sequence == nullptr) continue;
    sequence->num_computed_tokens += sequence->num_scheduled_tokens;
    sequence->num_scheduled_tokens = 0;
    kv_cache_.commit(sequence->blocks, sequence->tokens(), sequence->request.spec().cache_salt,
                     sequence->num_computed_tokens);
  }
  kv_cache_.end_step();
}

void Scheduler::abandon_step() {
  in_step_ = false;
  const bool all_removed = std::all_of(scheduled_.begin(), scheduled_.end(), [](auto* s) { return s == nullptr; });
  UNSPOOL_CHECK(all_removed, "a failed step has sequences left");
  kv_cache_.end_step();
}

void Scheduler::insert_running(Sequence& sequence) {
  sequence.state = SequenceState::kRunning;
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, InOrder()), &sequence);
}

void Scheduler::leave_queue(Sequence& sequence) {
  waiting_.erase(&sequence);
  if (refused_ == &sequence) refused_ = nullptr;
  if (sequence.admitted_before) return;
  --num_queued_;
  num_queued_tokens_ -= sequence.num_tokens();
  if (!sequence.ready) --num_unready_;
}

std::vector<std::string> Scheduler::validate() const {
  std::vector<const BlockTable*> tables;
  std::vector<std::string> violations;
  const auto expect = [&](bool holds, const Sequence& sequence, const char* what) {
    if (!holds) violations.push_back(fmt::format("sequence {}: {}", sequence.id, what));
  };
  for (const Sequence* s : running_) {
    tables.push_back(&s->blocks);
    expect(s->state == SequenceState::kRunning, *s, "in running, not running");
    expect(s->num_scheduled_tokens == 0, *s, "scheduled between steps");
    expect(s->num_tokens_to_compute() > 0, *s, "runs with nothing to compute");
    expect(static_cast<int>(s->blocks.blocks.size()) >= kv_cache_.blocks_for(s->num_computed_tokens), *s,
           "has computed tokens without a block");
  }
  for (const Sequence* s : waiting_) {
    expect(s->state == SequenceState::kWaiting, *s, "in the queue, not waiting");
    expect(s->blocks.blocks.empty() && s->num_computed_tokens == 0, *s, "waits with blocks");
  }
  const auto queued =
      std::count_if(waiting_.begin(), waiting_.end(), [](const Sequence* s) { return !s->admitted_before; });
  if (queued != num_queued_) violations.push_back(fmt::format("{} have not begun, {} counted", queued, num_queued_));
  const auto unready = std::count_if(waiting_.begin(), waiting_.end(), [](const Sequence* s) { return !s->ready; });
  if (unready != num_unready_) violations.push_back(fmt::format("{} not ready, {} counted", unready, num_unready_));
  if (!std::is_sorted(running_.begin(), running_.end(), InOrder())) violations.push_back("running is out of order");
  if (num_running() > config_.max_num_seqs) violations.push_back(fmt::format("{} sequences run", num_running()));
  for (auto& violation : kv_cache_.validate(tables)) violations.push_back(std::move(violation));
  return violations;
}

}  // namespace unspool
