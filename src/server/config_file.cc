// --config: flags from YAML. No YAML type leaves this file.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <exception>

#include "base/file.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "server/flag_parser.h"
#include "server/flag_table.h"

namespace unspool {
namespace {

// A YAML value as JSON. Aliases can make a few lines stand for a value without end, so there is a limit to both.
class JsonOfYaml {
 public:
  Result<std::string> convert(const YAML::Node& node) {
    UNSPOOL_TRY(write(node, 0));
    return std::move(writer_).str();
  }

 private:
  static constexpr int kMaxDepth = 64;
  static constexpr int kMaxNodes = 100000;

  Status write(const YAML::Node& node, int depth) {
    if (depth > kMaxDepth || ++num_nodes_ > kMaxNodes) return invalid_argument("nested too deep, or too large");
    switch (node.Type()) {
      case YAML::NodeType::Sequence:
        writer_.begin_array();
        for (const YAML::Node& element : node) UNSPOOL_TRY(write(element, depth + 1));
        writer_.end_array();
        break;
      case YAML::NodeType::Map:
        writer_.begin_object();
        for (const auto& member : node) {
          writer_.key(member.first.Scalar());
          UNSPOOL_TRY(write(member.second, depth + 1));
        }
        writer_.end_object();
        break;
      case YAML::NodeType::Scalar:
        write_scalar(node);
        break;
      default:
        writer_.null();
    }
    return {};
  }

  // YAML tells quoted texts from numbers by their tag.
  void write_scalar(const YAML::Node& node) {
    if (node.Tag() != "!" && JsonDocument::parse(node.Scalar()).ok()) {
      writer_.raw(node.Scalar());
    } else {
      writer_.string(node.Scalar());
    }
  }

  JsonWriter writer_;
  int num_nodes_ = 0;
};

// The words that say on the command line what the file says here.
Status add_words(const std::string& key, const YAML::Node& value, std::vector<std::string>& words) {
  const std::string flag = "--" + key;
  if (value.IsNull()) return {};
  if (value.IsMap()) {
    UNSPOOL_ASSIGN(const std::string json, JsonOfYaml().convert(value));
    words.push_back(flag + "=" + json);
    return {};
  }
  if (value.IsSequence()) {
    const FlagSpec* spec = find_flag([&] {
      std::string name = key;
      for (char& c : name) c = c == '_' ? '-' : c;
      return name;
    }());
    if (spec != nullptr && spec->kind == FlagKind::kJson) {
      UNSPOOL_ASSIGN(const std::string json, JsonOfYaml().convert(value));
      words.push_back(flag + "=" + json);
      return {};
    }
    if (value.size() == 0) return {};
    words.push_back(flag);
    for (const YAML::Node& element : value) {
      if (!element.IsScalar()) return invalid_argument("a list of words is needed");
      words.push_back(element.Scalar());
    }
    return {};
  }
  words.push_back(flag + "=" + value.Scalar());
  return {};
}

}  // namespace

Result<FlagValues> read_config_file(const std::string& path) {
  // Read here: yaml-cpp takes what is no file, and leaks its buffer where reading that throws.
  const auto text = read_file(path);
  if (!text.ok()) return invalid_argument(fmt::format("--config: {}", text.error().message));
  std::vector<std::string> words;
  try {
    const YAML::Node root = YAML::Load(*text);
    if (root.IsNull()) return FlagValues();
    if (!root.IsMap()) return invalid_argument(fmt::format("--config {}: a map of flags is needed", path));
    for (const auto& member : root) {
      const Status added = add_words(member.first.Scalar(), member.second, words);
      if (!added.ok()) {
        return invalid_argument(fmt::format("--config {}: {}: {}", path, member.first.Scalar(), added.error().message));
      }
    }
  } catch (const std::exception& error) {
    return invalid_argument(fmt::format("--config {}: {}", path, error.what()));
  }
  auto values = parse_flags(words);
  if (!values.ok()) return invalid_argument(fmt::format("--config {}: {}", path, values.error().message));
  return values;
}

}  // namespace unspool
