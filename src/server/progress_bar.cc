#include "server/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace unspool {

ProgressBar::ProgressBar(std::string title, size_t total_bytes, bool wanted)
    : title_(std::move(title)),
      total_bytes_(total_bytes),
      visible_(wanted && total_bytes > 0 && isatty(STDERR_FILENO) == 1) {
  draw();
}

ProgressBar::~ProgressBar() {
  if (visible_) std::fputc('\n', stderr);
}

void ProgressBar::add(size_t bytes) {
  done_bytes_ = std::min(done_bytes_ + bytes, total_bytes_);
  draw();
}

void ProgressBar::draw() {
  if (!visible_) return;
  const int percent = static_cast<int>(done_bytes_ * 100 / total_bytes_);
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  constexpr int kWidth = 40;
  const int filled = percent * kWidth / 100;
  const std::string line = fmt::format("\r{} [{}{}] {:3}% of {:.0f} MB", title_, std::string(filled, '='),
                                       std::string(kWidth - filled, ' '), percent, total_bytes_ / 1e6);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace unspool
