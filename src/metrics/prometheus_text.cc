#include "metrics/prometheus_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace unspool {
namespace {

void append_escaped(std::string& out, std::string_view text, bool quoted) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quoted) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

// Go's switch to exponents, which prometheus_client follows: at a million, and below Python's 0.0001.
bool is_written_fixed(double magnitude) {
  return magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e6);
}

}  // namespace

std::string prometheus_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  const bool fixed = is_written_fixed(std::abs(value));
  std::array<char, 64> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                    fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(digits.data(), result.ptr);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

void PrometheusText::family(std::string_view name, std::string_view help, std::string_view type) {
  out_.append("# HELP ").append(name).append(" ");
  append_escaped(out_, help, false);
  out_.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
}

void PrometheusText::sample(std::string_view name, const MetricLabels& labels, double value) {
  sample_with(name, labels, {}, value);
}

void PrometheusText::bucket(std::string_view name, const MetricLabels& labels, double upper_bound, double value) {
  sample_with(name, labels, prometheus_number(upper_bound), value);
}

void PrometheusText::sample_with(std::string_view name, const MetricLabels& labels, std::string_view le, double value) {
  out_.append(name);
  char before = '{';
  const auto label = [&](std::string_view key, std::string_view text) {
    out_ += before;
    before = ',';
    out_.append(key).append("=\"");
    append_escaped(out_, text, true);
    out_ += '"';
  };
  for (const auto& [key, text] : labels) label(key, text);
  if (!le.empty()) label("le", le);
  if (before == ',') out_ += '}';
  out_.append(" ").append(prometheus_number(value)).append("\n");
}

}  // namespace unspool
