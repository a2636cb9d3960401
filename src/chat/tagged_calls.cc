#include "chat/tagged_calls.h"

#include <algorithm>
#include <utility>

namespace unspool::chat {

void TaggedScanner::read(std::string_view text, CallSink& sink) {
  for (const char c : text) push(c, sink);
}

void TaggedScanner::finish(CallSink& sink) {
  plain(std::exchange(held_, {}), sink);
  if (part_ != Part::kContent && part_ != Part::kBetween) sink.end_call();
  part_ = Part::kContent;
}

void TaggedScanner::push(char c, CallSink& sink) {
  if (c == tags_.front().front()) {
    plain(held_, sink);
    held_ = c;
    return;
  }
  if (!held_.empty()) {
    held_ += c;
    const auto tag = std::ranges::find_if(tags_, [&](std::string_view t) { return t.starts_with(held_); });
    if (tag != tags_.end()) {
      if (tag->size() > held_.size()) return;
      held_.clear();
      return found(*tag, sink);
    }
    const std::string text = std::exchange(held_, {});
    plain(std::string_view(text).substr(0, text.size() - 1), sink);
  }
  byte(c, sink);
}

void TaggedScanner::plain(std::string_view text, CallSink& sink) const {
  if (text.empty()) return;
  if (part_ == Part::kContent) sink.content(text);
  if (part_ == Part::kName) sink.name(text);
  if (part_ == Part::kArguments) sink.arguments(text);
}

void TaggedScanner::begin(Part part, CallSink& sink) {
  part_ = part;
  sink.begin_call();
}

void TaggedScanner::end(Part part, CallSink& sink) {
  part_ = part;
  sink.end_call();
}

void TaggedStream::read(std::string_view text, OutputDelta& out) {
  out_ = &out;
  scanner_->read(text, *this);
}

void TaggedStream::finish(OutputDelta& out) {
  out_ = &out;
  scanner_->finish(*this);
  content_.finish(out);
}

void TaggedStream::begin_call() {
  if (wants_calls_) content_.begin_call();
  ++index_;
  name_.clear();
}

ParsedOutput TaggedCollector::collect(std::string_view content, TaggedScanner& scanner) {
  scanner.read(content, *this);
  scanner.finish(*this);
  return content_.take(std::move(calls_));
}

void TaggedCollector::begin_call() {
  content_.begin_call();
  name_.clear();
  arguments_.clear();
}

void TaggedCollector::end_call() {
  if (auto made = call(name_, arguments_)) calls_.push_back(std::move(*made));
}

}  // namespace unspool::chat
