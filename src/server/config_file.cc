// --config: flags from YAML. No YAML type leaves this file.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "json/json.h"
#include "json/json_writer.h"
#include "server/flag_parser.h"
#include "server/flag_table.h"

namespace unspool {
namespace {

// A scalar as JSON; YAML tells quoted texts from numbers by their tag.
void write_json(JsonWriter& w, const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Sequence:
      w.begin_array();
      for (const YAML::Node& element : node) write_json(w, element);
      w.end_array();
      return;
    case YAML::NodeType::Map:
      w.begin_object();
      for (const auto& member : node) {
        w.key(member.first.Scalar());
        write_json(w, member.second);
      }
      w.end_object();
      return;
    case YAML::NodeType::Scalar:
      if (node.Tag() != "!" && JsonDocument::parse(node.Scalar()).ok()) {
        w.raw(node.Scalar());
      } else {
        w.string(node.Scalar());
      }
      return;
    default:
      w.null();
  }
}

// The words that say on the command line what the file says here.
Status add_words(const std::string& key, const YAML::Node& value, std::vector<std::string>& words) {
  const std::string flag = "--" + key;
  if (value.IsNull()) return {};
  if (value.IsMap()) {
    JsonWriter w;
    write_json(w, value);
    words.push_back(flag + "=" + std::move(w).str());
    return {};
  }
  if (value.IsSequence()) {
    const FlagSpec* spec = find_flag([&] {
      std::string name = key;
      for (char& c : name) c = c == '_' ? '-' : c;
      return name;
    }());
    if (spec != nullptr && spec->kind == FlagKind::kJson) {
      JsonWriter w;
      write_json(w, value);
      words.push_back(flag + "=" + std::move(w).str());
      return {};
    }
    if (value.size() == 0) return {};
    words.push_back(flag);
    for (const YAML::Node& element : value) {
      if (!element.IsScalar()) return invalid_argument(fmt::format("{} takes a list of words", key));
      words.push_back(element.Scalar());
    }
    return {};
  }
  words.push_back(flag + "=" + value.Scalar());
  return {};
}

}  // namespace

Result<FlagValues> read_config_file(const std::string& path) {
  std::vector<std::string> words;
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (root.IsNull()) return FlagValues();
    if (!root.IsMap()) return invalid_argument(fmt::format("--config {}: a map of flags is needed", path));
    for (const auto& member : root) UNSPOOL_TRY(add_words(member.first.Scalar(), member.second, words));
  } catch (const YAML::BadFile&) {
    return invalid_argument(fmt::format("--config {}: cannot be read", path));
  } catch (const YAML::Exception& error) {
    return invalid_argument(fmt::format("--config {}: {}", path, error.what()));
  }
  auto values = parse_flags(words);
  if (!values.ok()) return invalid_argument(fmt::format("--config {}: {}", path, values.error().message));
  return values;
}

}  // namespace unspool
