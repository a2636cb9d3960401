// What formats have in common that put calls between tags: [TOOL_CALLS]NAME{...}, <function=NAME>...</function>.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/engine_content.h"
#include "chat/tool_format.h"

namespace unspool::chat {

// What a text of such a format is made of, in order.
class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual void content(std::string_view text) = 0;
  virtual void begin_call() = 0;
  virtual void name(std::string_view text) = 0;  // a piece of it
  virtual void arguments(std::string_view text) = 0;
  virtual void end_call() = 0;
};

// Takes a text apart, byte by byte. All tags begin with one byte, which none of them has again.
class TaggedScanner {
 public:
  virtual ~TaggedScanner() = default;
  void read(std::string_view text, CallSink& sink);
  void finish(CallSink& sink);

 protected:
  enum class Part : uint8_t { kContent, kPreamble, kName, kArguments, kBetween };

  // The tags outlive this.
  explicit TaggedScanner(std::span<const std::string_view> tags) : tags_(tags) {}
  // A byte that belongs to no tag.
  virtual void byte(char c, CallSink& sink) = 0;
  virtual void found(std::string_view tag, CallSink& sink) = 0;

  // Of the part where the scanner stands; before and between calls it is nothing.
  void plain(std::string_view text, CallSink& sink) const;
  void begin(Part part, CallSink& sink);
  void end(Part part, CallSink& sink);

  Part part_ = Part::kContent;

 private:
  void push(char c, CallSink& sink);

  std::span<const std::string_view> tags_;
  std::string held_;  // what may be a tag
};

// A content as it streams; what becomes of arguments is the format's.
class TaggedStream : public ToolStream, protected CallSink {
 public:
  void read(std::string_view text, OutputDelta& out) override;
  void finish(OutputDelta& out) override;

 protected:
  TaggedStream(std::unique_ptr<TaggedScanner> scanner, bool wants_calls)
      : scanner_(std::move(scanner)), wants_calls_(wants_calls) {}
  void content(std::string_view text) override { content_.read(text, *out_); }
  void begin_call() override;
  void name(std::string_view text) override { name_ += text; }

  OutputDelta* out_ = nullptr;
  int index_ = -1;  // of the call
  std::string name_;

 private:
  std::unique_ptr<TaggedScanner> scanner_;
  bool wants_calls_;
  EngineContent content_;
};

// A whole content; what a call comes to is the format's.
class TaggedCollector : private CallSink {
 public:
  ParsedOutput collect(std::string_view content, TaggedScanner& scanner);

 protected:
  explicit TaggedCollector(const FormatOptions& options) : options_(options), content_(options.wants_calls) {}
  // nullopt: what stands there is no call.
  virtual std::optional<ToolCall> call(const std::string& name, const std::string& arguments) const = 0;

  const FormatOptions& options_;

 private:
  void content(std::string_view text) override { content_.read(text); }
  void begin_call() override;
  void name(std::string_view text) override { name_ += text; }
  void arguments(std::string_view text) override { arguments_ += text; }
  void end_call() override;

  EngineWhole content_;
  std::string name_;
  std::string arguments_;
  std::vector<ToolCall> calls_;
};

}  // namespace unspool::chat
