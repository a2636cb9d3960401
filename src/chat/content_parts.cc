#include "chat/content_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "jinja/json_value.h"

namespace unspool::chat {
namespace {

using jinja::Dict;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

constexpr std::string_view kAttribution = "x-anthropic-billing-header";

constexpr std::string_view kSupported =
    "audio_embeds, audio_url, image_embeds, image_pil, image_url, input_audio, input_image, input_text, output_text, "
    "prompt_embeds, refusal, text, thinking, tool_reference, video_embeds, video_url";
constexpr std::string_view kMedia[] = {"audio_embeds", "audio_url",   "image_embeds", "image_pil", "image_url",
                                       "input_audio",  "input_image", "video_embeds", "video_url", "prompt_embeds"};
// Members that some kind of part has: templates see the others as they came.
constexpr std::string_view kKnownMembers[] = {
    "type",         "text",         "image_url",    "input_audio",   "file",
    "refusal",      "audio_url",    "video_url",    "image_pil",     "uuid",
    "image_embeds", "audio_embeds", "video_embeds", "prompt_embeds", "data",
    "thinking",     "closed",       "name",         "detail",        "prompt_cache_breakpoint"};

template <size_t N>
bool is_one_of(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// The text that a part stands for, and the member that holds it.
struct Part {
  Text text;
  Value wrapped;
};

Value text_part(Text text) {
  Dict out;
  out.set(Value::string("type"), Value::string("text"));
  out.set(Value::string("text"), Value::string(std::move(text)));
  return Value::dict(std::move(out));
}

// The text without the attribution line; nullopt where nothing else was there.
std::optional<std::string_view> without_attribution(std::string_view text, bool is_system) {
  if (!is_system || !text.starts_with(kAttribution)) return text;
  const size_t newline = text.find('\n');
  if (newline == std::string_view::npos || newline + 1 == text.size()) return std::nullopt;
  return text.substr(newline + 1);
}

Result<std::optional<Part>> read_part(const JsonValue& json, bool is_system) {
  if (const auto text = json.as_string()) {
    const auto kept = without_attribution(*text, is_system);
    if (!kept) return std::optional<Part>();
    const Text marked(std::string(*kept), Origin::kInput);
    return std::optional<Part>(Part{marked, text_part(marked)});
  }
  if (json["type"].is_null()) return invalid_argument("Missing 'type' field in multimodal part.", "type");
  const auto type = json["type"].as_string();
  if (!type) return invalid_argument("Invalid 'type' field in multimodal part.", "type");
  if (is_one_of(kMedia, *type)) {
    // What the reference says of a model without a modality.
    return invalid_argument("This model does not support multimodal input.", "messages");
  }
  const bool is_text = *type == "text" || *type == "input_text" || *type == "output_text";
  if (!is_text && *type != "thinking" && *type != "refusal" && *type != "tool_reference") {
    return invalid_argument(
        fmt::format("Unsupported chat content part type: '{}'. Supported types: {}.", *type, kSupported), "type");
  }
  const std::string_view member = is_text ? "text" : *type == "tool_reference" ? "name" : *type;
  const auto text = json[member].as_string();
  if (!text) return std::optional<Part>();
  const auto kept = without_attribution(*text, is_system && *type == "text");
  if (!kept) return std::optional<Part>();
  const Text marked(std::string(*kept), Origin::kInput);
  Dict wrapped;
  if (*type == "tool_reference") {
    wrapped.set(Value::string("type"), Value::string("tool_reference"));
    wrapped.set(Value::string("name"), Value::string(marked));
  } else {
    wrapped = text_part(marked).as_dict();
    for (const auto& [key, value] : json.members()) {
      if (is_one_of(kKnownMembers, key)) continue;
      wrapped.set(Value::string(Text(std::string(key), Origin::kInput)), jinja::from_json(value, Origin::kInput));
    }
  }
  return std::optional<Part>(Part{marked, Value::dict(std::move(wrapped))});
}

}  // namespace

Result<Value> read_content(const JsonValue& content, ContentFormat format, bool is_system) {
  std::vector<JsonValue> parts;
  if (content.is_string()) {
    parts.push_back(content);
  } else {
    parts = content.elements();
  }
  Text text;
  std::vector<Value> wrapped;
  for (const JsonValue& json : parts) {
    UNSPOOL_ASSIGN(std::optional<Part> part, read_part(json, is_system));
    if (!part) continue;
    if (!wrapped.empty()) text.append("\n", Origin::kTemplate);
    text.append(part->text);
    wrapped.push_back(std::move(part->wrapped));
  }
  return format == ContentFormat::kOpenAi ? Value::list(std::move(wrapped)) : Value::string(std::move(text));
}

}  // namespace unspool::chat
