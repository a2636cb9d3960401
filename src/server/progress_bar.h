// A bar on standard error while weights load; nothing where that is no terminal.
#pragma once

#include <cstddef>
#include <string>

namespace unspool {

class ProgressBar {
 public:
  ProgressBar(std::string title, size_t total_bytes, bool wanted);
  ~ProgressBar();  // ends the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void add(size_t bytes);

 private:
  void draw();
  std::string title_;
  size_t total_bytes_;
  size_t done_bytes_ = 0;
  int shown_percent_ = -1;
  bool visible_;
};

}  // namespace unspool
