#include "server/flag_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "json/json.h"
#include "json/json_writer.h"
#include "server/flag_table.h"

namespace unspool {
namespace {

std::string dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

// Insertions, deletions and replacements between two names.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

Error unknown_flag(std::string_view shown, std::string_view name) {
  std::string_view nearest;
  size_t best = name.size() / 2 + 1;
  for (const FlagGroup& group : flag_groups()) {
    for (const FlagSpec& flag : group.flags) {
      const size_t d = distance(name, flag.name);
      if (d < best) {
        best = d;
        nearest = flag.name;
      }
    }
  }
  std::string message = fmt::format("unknown flag {}", shown);
  if (!nearest.empty()) message += fmt::format(", did you mean --{}?", nearest);
  return invalid_argument(std::move(message));
}

// A word as JSON: itself where it is JSON, else a string.
std::string as_json(std::string_view word) {
  if (JsonDocument::parse(word).ok()) return std::string(word);
  JsonWriter w;
  w.string(word);
  return std::move(w).str();
}

// Sets one key, which may lead into nested objects by dots.
std::string with_key(std::string_view object, std::string_view path, std::string_view value) {
  const size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  const auto document = JsonDocument::parse(object.empty() ? std::string_view("{}") : object);
  const JsonValue root = document.ok() ? document->root() : JsonValue();
  const auto inner = root.find(key);
  const std::string replacement =
      dot == std::string_view::npos
          ? std::string(value)
          : with_key(inner && inner->is_object() ? inner->dump() : "", path.substr(dot + 1), value);
  JsonWriter w;
  w.begin_object();
  for (const auto& [name, member] : root.members()) {
    if (name == key) continue;
    w.key(name);
    w.raw(member.dump());
  }
  w.key(key);
  w.raw(replacement);
  w.end_object();
  return std::move(w).str();
}

// Walks the words once.
class Parser {
 public:
  explicit Parser(const std::vector<std::string>& words) : words_(words) {}

  Result<FlagValues> run() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_];
      if (word.size() < 2 || word[0] != '-' || is_number(word)) {
        UNSPOOL_TRY(take_model(word));
      } else {
        UNSPOOL_TRY(take_flag(word));
      }
    }
    return std::move(values_);
  }

 private:
  static bool is_number(std::string_view word) { return word[1] == '.' || (word[1] >= '0' && word[1] <= '9'); }
  static bool is_flag(std::string_view word) { return word.size() > 1 && word[0] == '-' && !is_number(word); }

  Status take_model(const std::string& word) {
    ++at_;
    if (model_given_) return invalid_argument(fmt::format("unexpected argument '{}': one model is served", word));
    model_given_ = true;
    values_.set("model", {word});
    return {};
  }

  struct Named {
    const FlagSpec* flag = nullptr;
    bool negated = false;
    std::string path;  // after the first dot
  };

  std::optional<Named> find(std::string_view word) const {
    if (const FlagSpec* flag = find_flag(word)) return Named{flag, false, {}};  // an alias, dash and all
    if (!word.starts_with("--")) {
      // "-cc.mode 3"
      const size_t dot = word.find('.');
      const FlagSpec* flag = dot == std::string_view::npos ? nullptr : find_flag(word.substr(0, dot));
      if (flag == nullptr || flag->kind != FlagKind::kJson) return std::nullopt;
      return Named{flag, false, std::string(word.substr(dot + 1))};
    }
    word.remove_prefix(2);
    const size_t dot = word.find('.');
    const std::string name = dashed(word.substr(0, dot));
    const FlagSpec* flag = find_flag(name);
    if (flag != nullptr && flag->name == name) {
      if (dot == std::string_view::npos) return Named{flag, false, {}};
      if (flag->kind == FlagKind::kJson) return Named{flag, false, std::string(word.substr(dot + 1))};
      return std::nullopt;
    }
    if (name.starts_with("no-") && dot == std::string_view::npos) {
      flag = find_flag(std::string_view(name).substr(3));
      if (flag != nullptr && flag->kind == FlagKind::kSwitch) return Named{flag, true, {}};
    }
    return std::nullopt;
  }

  Status take_flag(const std::string& word) {
    ++at_;
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto named = find(name);
    if (!named) return unknown_flag(name, dashed(std::string_view(name).substr(name.starts_with("--") ? 2 : 1)));
    std::optional<std::string> given;
    if (equals != std::string::npos) given = word.substr(equals + 1);
    const FlagSpec& flag = *named->flag;
    if (flag.kind == FlagKind::kSwitch) return take_switch(name, flag, named->negated, given);
    if (flag.kind == FlagKind::kTexts) return take_texts(name, flag, given);
    if (!given) {
      if (at_ == words_.size() || is_flag(words_[at_])) return invalid_argument(fmt::format("{} needs a value", name));
      given = words_[at_++];
    }
    if (flag.kind == FlagKind::kJson) return take_json(name, flag, named->path, *given);
    values_.set(flag.name, {*given});
    return {};
  }

  Status take_switch(const std::string& shown, const FlagSpec& flag, bool negated,
                     const std::optional<std::string>& given) {
    bool value = !negated;
    if (given) {
      if (*given != "true" && *given != "false" && *given != "True" && *given != "False") {
        return invalid_argument(fmt::format("{} is a switch, not '{}'", shown, *given));
      }
      value = (given->front() == 't' || given->front() == 'T') != negated;
    }
    values_.set(flag.name, {value ? "true" : "false"});
    return {};
  }

  Status take_texts(const std::string& shown, const FlagSpec& flag, const std::optional<std::string>& given) {
    std::vector<std::string> words;
    if (given) words.push_back(*given);
    while (!given && at_ < words_.size() && !is_flag(words_[at_])) words.push_back(words_[at_++]);
    if (words.empty()) return invalid_argument(fmt::format("{} needs a value", shown));
    values_.set(flag.name, std::move(words));
    return {};
  }

  Status take_json(const std::string& shown, const FlagSpec& flag, const std::string& path, const std::string& given) {
    if (!path.empty()) {
      values_.set(flag.name, {with_key(values_.text(flag.name), path, as_json(given))});
      return {};
    }
    if (flag.support == FlagSupport::kSupported && !JsonDocument::parse(given).ok()) {
      return invalid_argument(fmt::format("{} needs JSON, not '{}'", shown, given));
    }
    values_.set(flag.name, {given});
    return {};
  }

  const std::vector<std::string>& words_;
  size_t at_ = 0;
  bool model_given_ = false;
  FlagValues values_;
};

}  // namespace

std::string FlagValues::text(std::string_view name, std::string_view fallback) const {
  const auto at = values_.find(name);
  return at == values_.end() || at->second.empty() ? std::string(fallback) : at->second.back();
}

std::vector<std::string> FlagValues::texts(std::string_view name) const {
  const auto at = values_.find(name);
  return at == values_.end() ? std::vector<std::string>() : at->second;
}

bool FlagValues::enabled(std::string_view name, bool fallback) const {
  return has(name) ? text(name) == "true" : fallback;
}

void FlagValues::set(std::string_view name, std::vector<std::string> words) {
  const auto [at, fresh] = values_.insert_or_assign(std::string(name), std::move(words));
  if (fresh) order_.push_back(at->first);
}

Result<FlagValues> parse_flags(const std::vector<std::string>& words) {
  return Parser(words).run();
}

FlagValues merge(FlagValues base, const FlagValues& over) {
  for (const std::string& name : over.names()) base.set(name, over.texts(name));
  return base;
}

Result<int64_t> parse_size(std::string_view flag, std::string_view text) {
  const auto refuse = [&] { return invalid_argument(fmt::format("--{} needs a number, not '{}'", flag, text)); };
  int64_t exact = 0;  // a double would round a large seed
  const auto whole = std::from_chars(text.data(), text.data() + text.size(), exact);
  if (whole.ec == std::errc() && whole.ptr == text.data() + text.size()) return exact;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return refuse();
  std::string_view unit(end, text.data() + text.size() - end);
  double scale = 1;
  if (!unit.empty()) {
    const size_t power = std::string_view("kmgt").find(static_cast<char>(unit[0] | 0x20));
    if (power == std::string_view::npos) return refuse();
    const bool decimal = unit.size() == 1 && unit[0] >= 'a';
    const bool binary = (unit.size() == 1 && !decimal) || unit.substr(1) == "i" || unit.substr(1) == "iB";
    if (!decimal && !binary) return refuse();
    scale = std::pow(decimal ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  value *= scale;
  if (value != std::trunc(value) || std::abs(value) >= 0x1p62) return refuse();
  return static_cast<int64_t>(value);
}

}  // namespace unspool
