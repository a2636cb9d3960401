// Finds stop strings in text that grows, and holds back what may yet turn out to be the beginning of one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unspool {

// All text is whole UTF-8 characters, so a search by bytes is a search by characters; only the hold-back is counted.
class StopStringMatcher {
 public:
  // `stops` must outlive the matcher. Without `include`, text is cut before a match, and max(characters of a stop) - 1
  // characters are held back; with it, text is cut after the match and nothing is held back.
  StopStringMatcher(const std::vector<std::string>& stops, bool include);

  // Takes new text, and searches it for matches that end in it where `search` is set. Of several, the one that ends
  // first wins; of those that end together, the first in the list. Returns its place in the list.
  std::optional<size_t> push(std::string_view text, bool search);
  // Text that can go out now; after a match, all there will be.
  std::string take_ready();
  // Text that was held back, at the end of a sequence without a match.
  std::string take_rest();

 private:
  void trim();

  const std::vector<std::string>& stops_;
  bool include_;
  size_t held_characters_ = 0;
  size_t overlap_bytes_ = 0;  // of earlier text that a match may begin in
  std::string window_;        // the end of all text so far
  size_t sent_ = 0;           // bytes of the window that have gone out
  bool matched_ = false;
};

}  // namespace unspool
