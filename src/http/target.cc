#include "http/target.h"

#include <algorithm>

#include "http/server.h"

namespace unspool::http {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Form encoding: as percent encoding, and '+' is a space.
std::string form_decode(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return percent_decode(spaced);
}

}  // namespace

std::string percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) {
      decoded += text[i];
      continue;
    }
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::string without_trailing_slash(std::string path) {
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Target split_target(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  std::string_view path = target.substr(0, question);
  const std::string_view query = question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  if (!path.starts_with('/')) {
    const size_t scheme = path.find("://");
    if (scheme != std::string_view::npos) {
      const size_t slash = path.find('/', scheme + 3);
      path = slash == std::string_view::npos ? std::string_view("/") : path.substr(slash);
    }
  }
  return {without_trailing_slash(percent_decode(path)), std::string(query)};
}

const std::string* HttpRequest::header(std::string_view lower_name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [&](const auto& h) { return h.first == lower_name; });
  return found == headers.end() ? nullptr : &found->second;
}

std::vector<std::pair<std::string, std::string>> HttpRequest::query_parameters() const {
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string_view rest = query;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    parameters.emplace_back(form_decode(pair.substr(0, equals)),
                            form_decode(pair.substr(std::min(equals + 1, pair.size()))));
  }
  return parameters;
}

}  // namespace unspool::http
