// Reads an init_info or update_info as the reference's dataclasses do: nothing is coerced, and a key that is not known
// is refused by its name.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"

namespace unspool {

class InfoReader {
 public:
  // `root` is what errors call it: "update_info".
  InfoReader(JsonValue object, std::string root);

  // What is absent or null stays as it is.
  void read(std::string_view key, std::optional<bool>& out);
  void read(std::string_view key, std::optional<int64_t>& out, int64_t least,
            int64_t most = std::numeric_limits<int64_t>::max());
  void read(std::string_view key, std::optional<std::string>& out);
  void read(std::string_view key, std::optional<std::vector<std::string>>& out);
  void read(std::string_view key, std::optional<std::vector<int64_t>>& out);  // each of 0 or more
  void read(std::string_view key, std::optional<std::vector<std::vector<int64_t>>>& out);
  // The same where it has to be there; what is returned counts only if nothing fails.
  template <class T, class... Range>
  T require(std::string_view key, Range... range) {
    std::optional<T> out;
    read(key, out, range...);
    if (!out) missing(key);
    return std::move(out).value_or(T());
  }

  bool has(std::string_view key) const { return !object_[key].is_null(); }
  // The first one counts. "update_info.names: expected ..., got ..."
  void fail(std::string_view key, std::string message);
  // Once all that is known was read.
  Status finish();

 private:
  std::optional<JsonValue> find(std::string_view key);
  void expected(std::string_view key, std::string_view what, const JsonValue& got);
  void missing(std::string_view key);
  std::optional<std::vector<int64_t>> integers(std::string_view key, const JsonValue& value);

  JsonValue object_;
  std::string root_;
  std::set<std::string, std::less<>> known_;
  Status error_;
};

}  // namespace unspool
