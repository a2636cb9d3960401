// docs/control.md, from the table.
#include <fmt/format.h>

#include <array>

#include "engine/engine_state.h"

namespace unspool {

namespace {

struct CommandText {
  const char* name;
  const char* does;
  const char* differs;  // from vLLM 0.32.0, and why; null where it does not
};

constexpr std::array<CommandText, kNumCommands> kCommands = {{
    {"pause mode=abort",
     "Every request, running or queued, ends with finish_reason abort and what it has; then the reply. With "
     "clear_cache the "
     "prefix cache is emptied.",
     nullptr},
    {"pause mode=wait",
     "What is in flight runs to its end; then the cache is cleared, where asked for, and the reply sent. What has not "
     "begun "
     "stays queued. A request is in flight from its first admission on, also while it is preempted. Where nothing can "
     "step "
     "(memory asleep, weights discarded) the reply is sent at once. A wait that is ended by a keep, a resume or a wake "
     "is "
     "answered with 409, one that an abort ends has come true, and at shutdown it is answered with 503.",
     "vLLM leaves a preempted request queued and answers; its client would hang half-way through a reply that was "
     "waited "
     "for. There a superseded wait is never answered."},
    {"pause mode=keep",
     "Requests freeze after the step in flight. With clear_cache they give up their keys and values and are computed "
     "again "
     "after the resume, by the weights of then. Without it they go on with what they hold: where the weights have "
     "changed "
     "meanwhile, the resume says mixed_weights, their blocks never become prefix hits, and a preemption computes them "
     "again "
     "and opens a new version span.",
     "mixed_weights, and the new span, are additions: vLLM mixes silently."},
    {"resume", "Requests step again, queued ones are admitted.",
     "Asleep, vLLM resumes and the next step touches memory that is gone. Ours is a 409 that names the tag."},
    {"sleep level=0", "A pause in its mode, without clear_cache.", nullptr},
    {"sleep level=1",
     "A pause in its mode; then caches are cleared, kept requests lose their keys and values, and the memory of "
     "weights and "
     "cache is freed. The weights come back by themselves. Where they cannot be backed up (no space) the reply is an "
     "error, "
     "nothing is asleep, and the pause is as it was. An open update session is dropped; written in place, its weights "
     "are "
     "lost. Discarded weights are not "
     "worth a "
     "backup: that sleep is one of level 2.",
     "vLLM ignores a sleep where only the weights are asleep; ours frees the cache too."},
    {"sleep level=2",
     "The same, and the weights are gone. Where level 1 has put them to sleep already, they stay as level 1 left them. "
     "Without --enable-sleep-mode nothing is freed and nothing is lost at any level.",
     nullptr},
    {"wake_up",
     "All that is asleep; then the scheduler resumes, from a plain pause too. A failed wake leaves asleep what was "
     "asleep. A "
     "checkpoint that has changed underneath is a 409: the engine is awake, and its weights count as discarded.",
     "After level 2 vLLM generates from undefined weights. Ours waits for them: queued requests go on waiting, new "
     "ones get "
     "503. A whole reload ends that, a partial one does not."},
    {"wake_up tags=weights", "The weights alone. The scheduler resumes with the last tag.",
     "A tag that is awake already makes the whole call a no-op in vLLM. Ours skips it, and the others act."},
    {"wake_up tags=kv_cache", "The cache alone, zeroed. The scheduler resumes with the last tag.",
     "As for the weights."},
    {"wake_up tags=scheduling", "Resumes the scheduler where no memory is asleep.", nullptr},
    {"wake_up with an unknown tag", "Nothing, whatever other tags there are; the reply lists it as ignored.",
     "vLLM does not say so, and where nothing is asleep it resumes a pause all the same."},
    {"release_kv_cache_memory",
     "Needs a pause that has drained, or frozen requests, which are computed again. The cache's memory is freed; wake "
     "it with "
     "tags=kv_cache.",
     "vLLM refuses frozen requests that hold keys and values; ours preempts them."},
    {"reset_prefix_cache",
     "Nothing computed so far can be hit again. False, and nothing done, while a request holds blocks, unless "
     "reset_running_requests is set: then they are preempted and computed again.",
     nullptr},
    {"abort_requests", "Ends the requests named, or all, with what they have. Does not pause.", nullptr},
    {"update_weight_version", "The label of tokens drawn from now on.", nullptr},
    {"reload_weights",
     "Between two steps, all or nothing. The prefix cache is emptied; running requests keep what they hold. The "
     "version's "
     "label stays.",
     "vLLM leaves the prefix cache as it is, and crashes where the weights are asleep."},
    {"weight_checker checksum", "Reads the weights.", "Asleep, vLLM reads memory that is gone."},
    {"weight_checker reset", "Zeroes the weights, and empties the prefix cache.", "As above."},
    {"start_weight_update",
     "Opens a session. Its tensors come beside what runs, and wait; nothing of them is served before the session is "
     "finished, and nothing ever of one that is dropped.",
     "Where weights are asleep vLLM crashes at the first tensor. Ours is a 409 that names the tag; with the cache "
     "alone "
     "asleep it works."},
    {"update_weights",
     "What the engine does before a session's first byte. With --weight-update-mode double-buffer nothing: it goes on "
     "as update_open. In place, nothing steps from here until the session ends.",
     "vLLM writes every update in place, between two steps: those see a part of it."},
    {"finish_weight_update",
     "Between two steps: every tensor that came is served from the next one on, under the new version if one is given. "
     "Tensors that did not come are named in a 400, and the session goes on, unless it is partial: then the old ones "
     "stay. The prefix cache is emptied; running requests keep what they hold. A whole session ends discarded, a "
     "partial one does not. Parameters of --sleep-preserve-parameter-names need not come after a level 2.",
     "vLLM leaves the prefix cache as it is, and what did not come undefined."},
    {"the loss of an update",
     "A transfer that fails or is cut drops its session, and so does a sleep. The old weights stay, under the old "
     "version; in place they are lost.",
     "vLLM's model is unusable until a whole session succeeds, and answers all the same."},
    {"save_sharded_state",
     "Writes the weights that are served to a directory: safetensors with a Hugging Face checkpoint's names in the "
     "served "
     "dtype, and an index. Nothing steps meanwhile. A file takes its place when all of them are written.",
     "vLLM writes its fused tensors, and whatever is in their memory; only another vLLM can read them. Ours can be "
     "loaded by anyone, and a directory that holds other weights is refused."},
    {"a request", "Runs, or waits for the resume: it counts as waiting, can be aborted, and goes with its client.",
     nullptr},
}};

constexpr std::array<const char*, kNumSituations> kSituations = {"awake",
                                                                 "paused_new",
                                                                 "paused_all",
                                                                 "draining",
                                                                 "discarded",
                                                                 "update_open",
                                                                 "update_open_kv_asleep",
                                                                 "update_writing",
                                                                 "update_writing_kv_asleep",
                                                                 "kv_asleep",
                                                                 "kv_asleep_discarded",
                                                                 "weights_asleep_1",
                                                                 "weights_asleep_2",
                                                                 "asleep_1",
                                                                 "asleep_2",
                                                                 "failed"};

const char* reply_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return "done";
    case Outcome::kDrained:
      return "done once nothing is in flight";
    case Outcome::kNothing:
      return "200, nothing to do";
    case Outcome::kWaits:
      return "waits";
    case Outcome::kConflict:
      return "409";
    case Outcome::kInternal:
      return "500";
    case Outcome::kUnavailable:
      break;
  }
  return "503";
}

std::string list_of(const std::vector<Situation>& situations) {
  std::string text;
  for (const Situation s : situations) text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(s));
  return text;
}

// Situations with the same answer and the same end share a line.
std::string rows_of(Command command) {
  std::vector<std::pair<std::pair<const char*, std::string>, std::vector<Situation>>> rows;
  for (int i = 0; i < kNumSituations; ++i) {
    const auto situation = static_cast<Situation>(i);
    const Cell cell = control_cell(command, situation);
    const std::pair<const char*, std::string> key = {reply_text(cell.outcome),
                                                     cell.next == situation ? "the same" : to_string(cell.next)};
    bool found = false;
    for (auto& [other, situations] : rows) {
      if (other != key) continue;
      situations.push_back(situation);
      found = true;
      break;
    }
    if (!found) rows.push_back({key, {situation}});
  }
  std::string text = "| in | reply | then |\n|---|---|---|\n";
  for (const auto& [key, situations] : rows) {
    text += fmt::format("| {} | {} | {} |\n", list_of(situations), key.first, key.second);
  }
  return text;
}

constexpr const char* kHead = R"(# The control plane

<!-- Written from src/engine/control_table.cc by engine_test with UNSPOOL_UPDATE_DOCS=1. -->

Every command to the engine runs on the engine thread, between two steps. What it does depends on where the engine stands,
and each pair of the two is a cell of one table. Only a pause or a sleep in mode wait waits for generation; /is_paused,
/is_sleeping, /health and /metrics answer at once even then.

| situation | meaning |
|---|---|
| awake | requests run |
| paused_new | after a pause in mode abort or wait: nothing is admitted |
| paused_all | after a pause in mode keep: nothing steps |
| draining | a pause or sleep in mode wait has not been answered yet |
| discarded | awake after a sleep of level 2 or a lost update in place, and the weights not loaded again: nothing steps; paused or not |
| update_open | a session of weight updates is open; paused or not |
| update_open_kv_asleep | the same, before the cache was woken |
| update_writing, update_writing_kv_asleep | the same two, and weights are being written in place: nothing steps |
| kv_asleep, kv_asleep_discarded | the cache is asleep; the weights can be used, or wait for a reload |
| weights_asleep_1, weights_asleep_2 | the weights are asleep; a wake brings them back, or leaves them discarded |
| asleep_1, asleep_2 | both are asleep |
| failed | a fault of ours outside a step: everything is refused until a restart |

/is_paused and /is_sleeping say the same, as in vLLM: both are true during a plain pause and while any memory is asleep.
clear_cache of /pause is true where it is not given. Weights that were discarded and whose update session is open count as
discarded still, until that session has finished whole.
)";

}  // namespace

const char* to_string(Situation situation) {
  return kSituations[static_cast<size_t>(situation)];
}

const char* to_string(Command command) {
  return kCommands[static_cast<size_t>(command)].name;
}

std::string control_page() {
  std::string page = kHead;
  for (int i = 0; i < kNumCommands; ++i) {
    const CommandText& text = kCommands[i];
    page += fmt::format("\n## {}\n\n{}\n\n", text.name, text.does);
    if (text.differs != nullptr) page += fmt::format("Differs from vLLM 0.32.0: {}\n\n", text.differs);
    page += rows_of(static_cast<Command>(i));
  }
  return page;
}

}  // namespace unspool
