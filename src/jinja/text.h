// A string of a template, which remembers who wrote each of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unspool::jinja {

// Who wrote a text: the template's author, or whoever sent the messages, tools and documents that it is given.
enum class Origin : uint8_t { kTemplate, kInput };

// UTF-8 with the origin of every byte. Every operation of the engine that cuts, joins or maps strings goes through
// slice and append, so that the origin of what comes out is that of what went in.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, Origin origin = Origin::kTemplate)
      : bytes_(std::move(bytes)), first_(bytes_.empty() ? Origin::kTemplate : origin) {}

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  Origin origin_at(size_t at) const;
  Text slice(size_t begin, size_t end) const;
  void append(std::string_view bytes, Origin origin);
  void append(const Text& other);
  void append(const Text& other, size_t begin, size_t end);

  struct Run {
    size_t begin;
    size_t end;
    Origin origin;
  };
  // The text as runs of one origin each, in order.
  std::vector<Run> runs() const;

 private:
  std::string bytes_;
  Origin first_ = Origin::kTemplate;
  // Where the origin changes to the other one, ascending, each inside the text. Nearly always empty.
  std::vector<size_t> switches_;
};

}  // namespace unspool::jinja
