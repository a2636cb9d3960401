#include "chat/template_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "json/json.h"

namespace unspool::chat {
namespace {

namespace fs = std::filesystem;

// transformers' special tokens, which are what templates may use by name.
constexpr std::string_view kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

std::string text_of(std::string text) {
  // Python reads text files with universal newlines.
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  return out;
}

Status read_jinja_files(const std::string& model_dir, TemplateFiles& files) {
  const std::string main = model_dir + "/chat_template.jinja";
  if (file_exists(main)) {
    UNSPOOL_ASSIGN(std::string source, read_file(main));
    files.templates.emplace_back("default", text_of(std::move(source)));
  }
  std::error_code error;
  std::vector<fs::path> more;
  for (const auto& entry : fs::directory_iterator(model_dir + "/additional_chat_templates", error)) {
    if (entry.path().extension() == ".jinja") more.push_back(entry.path());
  }
  std::sort(more.begin(), more.end());
  for (const fs::path& path : more) {
    UNSPOOL_ASSIGN(std::string source, read_file(path.string()));
    files.templates.emplace_back(path.stem().string(), text_of(std::move(source)));
  }
  return {};
}

Status read_config_templates(const JsonValue& config, const std::string& path, TemplateFiles& files) {
  const JsonValue value = config["chat_template"];
  if (const auto source = value.as_string()) {
    files.templates.emplace_back("default", *source);
    return {};
  }
  if (value.is_null()) return {};
  if (value.is_object()) {
    for (const auto& [name, source] : value.members()) {
      if (!source.is_string()) return invalid_argument(fmt::format("{}: chat_template '{}' is no text", path, name));
      files.templates.emplace_back(name, *source.as_string());
    }
    return {};
  }
  for (const JsonValue& item : value.elements()) {
    const auto name = item["name"].as_string();
    const auto source = item["template"].as_string();
    if (!name || !source) {
      return invalid_argument(fmt::format("{}: chat_template needs a name and a template in each entry", path));
    }
    files.templates.emplace_back(*name, *source);
  }
  if (!value.is_array()) return invalid_argument(fmt::format("{}: chat_template is neither text nor list", path));
  return {};
}

// A token is its text, or an object that has it as its content.
void read_special_tokens(const JsonValue& json, TemplateFiles& files) {
  for (const std::string_view name : kSpecialTokens) {
    const bool is_known = std::any_of(files.special_tokens.begin(), files.special_tokens.end(),
                                      [&](const auto& token) { return token.first == name; });
    const JsonValue value = json[name];
    const auto text = value.is_object() ? value["content"].as_string() : value.as_string();
    if (text && !is_known) files.special_tokens.emplace_back(name, *text);
  }
}

}  // namespace

const std::string* TemplateFiles::find(std::string_view name) const {
  for (const auto& [each, source] : templates) {
    if (each == name) return &source;
  }
  return nullptr;
}

Result<const std::string*> TemplateFiles::choose(bool has_tools) const {
  if (templates.empty()) return static_cast<const std::string*>(nullptr);
  if (has_tools) {
    if (const std::string* source = find("tool_use")) return source;
  }
  if (const std::string* source = find("default")) return source;
  std::vector<std::string> names;
  for (const auto& [name, source] : templates) names.push_back(fmt::format("'{}'", name));
  std::sort(names.begin(), names.end());
  return invalid_argument(fmt::format(
      "This model has multiple chat templates with no default specified! Please either pass a chat template "
      "or the name of the template you wish to use to the `chat_template` argument. Available template "
      "names are [{}].",
      fmt::join(names, ", ")));
}

Result<TemplateFiles> read_template_files(const std::string& model_dir) {
  TemplateFiles files;
  UNSPOOL_TRY(read_jinja_files(model_dir, files));
  const auto read_json = [](const std::string& path) -> Result<JsonDocument> {
    UNSPOOL_ASSIGN(const std::string text, read_file(path));
    auto document = JsonDocument::parse(text);
    if (!document.ok()) return invalid_argument(fmt::format("{}: {}", path, document.error().message));
    return document;
  };
  const std::string config = model_dir + "/tokenizer_config.json";
  if (file_exists(config)) {
    UNSPOOL_ASSIGN(const JsonDocument document, read_json(config));
    if (files.templates.empty()) UNSPOOL_TRY(read_config_templates(document.root(), config, files));
    read_special_tokens(document.root(), files);
  }
  const std::string map = model_dir + "/special_tokens_map.json";
  if (file_exists(map)) {
    UNSPOOL_ASSIGN(const JsonDocument document, read_json(map));
    read_special_tokens(document.root(), files);
  }
  const std::string legacy = model_dir + "/chat_template.json";
  if (files.templates.empty() && file_exists(legacy)) {
    UNSPOOL_ASSIGN(const JsonDocument document, read_json(legacy));
    UNSPOOL_TRY(read_config_templates(document.root(), legacy, files));
  }
  return files;
}

}  // namespace unspool::chat
