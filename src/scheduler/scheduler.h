// Which tokens of which sequence the next step computes. Pure accounting: integers in, a plan out.
#pragma once

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv_cache/kv_cache_manager.h"
#include "request/request.h"
#include "scheduler/step_plan.h"

namespace unspool {

struct SchedulerConfig {
  int max_num_seqs = 256;
  int max_num_batched_tokens = 256;
};

// What may step. Who has begun is in flight until its end: admitted once, preempted or forked without a place since or
// not.
enum class PauseState {
  kUnpaused,
  kPausedNew,  // what is in flight steps on; what has not begun is not admitted
  kPausedAll,  // nothing steps
};

// Everything has a place in one order, ScheduleKey. Steps serve from its front: every running sequence that decodes,
// then the prompts being computed, in chunks, with what is left of the token budget, then admissions. A running
// sequence without a block takes those of the running sequence at the end of the order, which waits again with its
// output kept; at the end itself, it sits the step out. So the first in order always advances, and all do in the end.
class Scheduler {
 public:
  Scheduler(SchedulerConfig config, KvCacheManager& kv_cache);

  // One that is not `ready` keeps its place, and others are admitted meanwhile.
  void add(Sequence& sequence);
  void set_ready(Sequence& sequence);
  // Samples 1.. of a request whose prompt is complete: they share its blocks, or wait where there is no place.
  void fork(Request& request);
  // The sequence is finished, aborted or failed: its blocks go back. During a step it leaves the step too.
  // With `forget_output` the prefix cache keeps its prompt alone.
  void remove(Sequence& sequence, bool forget_output = false);

  // The plan stays valid until the next call; it may be empty. Ended by commit_step() or abandon_step().
  const StepPlan& plan_step(double now_s);
  // The sequences of the plan, in its order; null for those that were removed since.
  std::span<Sequence* const> scheduled() const { return scheduled_; }
  // The step was computed: the remaining sequences advance and their full blocks become prefix hits.
  void commit_step();
  // It was not; every sequence of the plan must have been removed.
  void abandon_step();

  // Between steps.
  void set_pause(PauseState pause) { pause_ = pause; }
  // Every running sequence gives its blocks back and waits, to be computed again from its tokens.
  void preempt_all();
  // Keys and values of those who run are of older weights from now on, until a preemption; to be computed again under
  // the new ones opens a new span of the sequence's versions.
  void weights_changed() { ++weights_epoch_; }
  bool holds_mixed_weights() const;

  // Sequences that have come to need more blocks than there are. They are removed already and end with what they have.
  std::vector<Sequence*> take_outgrown() { return std::exchange(outgrown_, {}); }

  int num_running() const { return static_cast<int>(running_.size()); }
  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  int num_in_flight() const { return num_running() + num_waiting() - num_queued_; }
  bool has_work() const;                                            // that may step
  int num_unready() const { return num_unready_; }                  // waiting, and not to be admitted yet
  int num_queued() const { return num_queued_; }                    // waiting, never admitted
  int64_t num_queued_tokens() const { return num_queued_tokens_; }  // of those

  struct Counters {
    int64_t preemptions = 0;
    int64_t prefix_queries = 0;  // tokens looked up at first admissions, and found
    int64_t prefix_hits = 0;
  };
  Counters take_counters() { return std::exchange(counters_, {}); }

  std::vector<std::string> validate() const;

 private:
  struct InOrder {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->key < b->key; }
  };

  void schedule_running(bool decodes);
  int make_room(Sequence& sequence, int num_tokens);
  void preempt_last();
  void admit(double now_s);
  Sequence* next_to_admit() const;
  bool admit_first(Sequence& sequence, double now_s);
  int blocks_promised() const;
  void fill_plan();
  void fill(ScheduledSequence& scheduled, const Sequence& sequence) const;
  void insert_running(Sequence& sequence);
  void leave_queue(Sequence& sequence);

  SchedulerConfig config_;
  KvCacheManager& kv_cache_;
  std::vector<Sequence*> running_;  // in order
  std::set<Sequence*, InOrder> waiting_;
  std::vector<Sequence*> outgrown_;
  int num_queued_ = 0;
  int num_unready_ = 0;
  int64_t num_queued_tokens_ = 0;
  Counters counters_;
  PauseState pause_ = PauseState::kUnpaused;
  int weights_epoch_ = 0;

  // The step being planned.
  bool in_step_ = false;
  int budget_ = 0;
  bool short_of_blocks_ = false;
  StepPlan plan_;
  std::vector<Sequence*> scheduled_;

  // The first in the queue was refused when so many blocks were free: looking its prefix up again is in vain until more
  // are.
  const Sequence* refused_ = nullptr;
  int refused_at_free_ = 0;
};

}  // namespace unspool
