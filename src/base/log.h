// The log: one line an event, to standard error. No spdlog type leaves log.cc.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace unspool {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view line);

// What log_line() makes of a text, parts of which a client or a file may have chosen: one line of valid UTF-8. Control
// characters and bytes that are no UTF-8 become \xNN, and what is very long is cut.
std::string log_text(std::string_view text);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace unspool
