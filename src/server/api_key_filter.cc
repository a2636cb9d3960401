#include "server/api_key_filter.h"

#include <algorithm>
#include <array>

#include "server/dev_routes.h"

namespace unspool {
namespace {

// In a time that does not depend on where the texts differ.
bool equal_in_constant_time(std::string_view key, std::string_view given) {
  size_t differs = key.size() ^ given.size();
  for (size_t i = 0; i < given.size(); ++i) {
    differs |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key.empty() ? 0 : key[i % key.size()]);
  }
  return differs == 0;
}

bool is_open(std::string_view path) {
  constexpr std::array<std::string_view, 4> kOpen = {"/health", "/ping", "/version", "/metrics"};
  return std::find(kOpen.begin(), kOpen.end(), path) != kOpen.end();
}

bool is_bearer(std::string_view scheme) {
  constexpr std::string_view kBearer = "bearer";
  return std::equal(scheme.begin(), scheme.end(), kBearer.begin(), kBearer.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a | 0x20 : a) == b; });
}

}  // namespace

ApiKeyFilter::ApiKeyFilter(std::vector<std::string> keys, std::string root_path, bool open_dev_routes)
    : keys_(std::move(keys)), root_path_(std::move(root_path)), open_dev_routes_(open_dev_routes) {}

bool ApiKeyFilter::knows(std::string_view key) const {
  bool known = false;
  for (const std::string& one : keys_) known |= equal_in_constant_time(one, key);
  return known;
}

bool ApiKeyFilter::admits(const http::HttpRequest& request) const {
  if (keys_.empty() || request.method == "OPTIONS") return true;
  std::string_view path = request.path;
  if (!root_path_.empty() && path.starts_with(root_path_)) path.remove_prefix(root_path_.size());
  if (is_open(path) || (open_dev_routes_ && is_dev_route(path))) return true;
  const std::string* header = request.header("authorization");
  if (header == nullptr) return false;
  const std::string_view text = *header;
  const size_t space = std::min(text.find(' '), text.size());
  return is_bearer(text.substr(0, space)) && space < text.size() && knows(text.substr(space + 1));
}

bool ApiKeyFilter::operator()(const http::HttpRequest& request, http::Responder& responder) const {
  if (admits(request)) return false;
  responder.send({401, "application/json", R"({"error":"Unauthorized"})", {}});
  return true;
}

}  // namespace unspool
