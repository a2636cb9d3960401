#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/utf8.h"

namespace unspool {
namespace {

spdlog::logger& logger() {
  // Leaked on purpose: threads may still log while static objects are destroyed.
  static spdlog::logger* instance = [] {
    auto* made = new spdlog::logger("unspool", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%L%$ %m-%d %H:%M:%S.%e %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void set_log_level(LogLevel level) {
  logger().set_level(to_spdlog(level));
}

void log_line(LogLevel level, std::string_view line) {
  if (logger().should_log(to_spdlog(level))) logger().log(to_spdlog(level), log_text(line));
}

std::string log_text(std::string_view text) {
  constexpr size_t kMaxBytes = 16 * 1024;
  std::string out;
  while (!text.empty() && out.size() < kMaxBytes) {
    const size_t length = utf8_sequence_length(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    if (length == 0 || lead < 0x20 || lead == 0x7f) {
      out += fmt::format("\\x{:02x}", lead);
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  if (!text.empty()) out += fmt::format("... ({} bytes more)", text.size());
  return out;
}

}  // namespace unspool
