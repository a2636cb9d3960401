// Messages to a prompt, by a model's chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/template.h"
#include "json/json.h"

namespace unspool::chat {

// What a template takes as a message's content: a text, or a list of parts.
enum class ContentFormat : uint8_t { kString, kOpenAi };

struct RenderOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  jinja::Limits limits = {};
};

// What a template is given beside its options. The JSON must outlive the call that takes it.
struct Conversation {
  std::vector<jinja::Value> messages;
  std::optional<jinja::Value> tools;      // absent: none
  std::optional<jinja::Value> documents;  // absent: none
  jinja::Variables kwargs;                // chat_template_kwargs; they win over the special tokens
};

// Immutable; may be used from several threads at once.
class ChatTemplate {
 public:
  // `special_tokens`: "bos_token" and the like, which templates use by name. `format`: not what the template's text
  // says.
  static jinja::TemplateResult<std::unique_ptr<const ChatTemplate>> parse(
      std::string_view source, std::vector<std::pair<std::string, std::string>> special_tokens = {},
      std::optional<ContentFormat> format = std::nullopt);

  ContentFormat content_format() const { return content_format_; }
  // Whether the template knows the role `developer`; the reference makes it `system` where it does not.
  bool supports_developer() const { return supports_developer_; }
  // Whether the template reads a variable of that name, so that it means something among the kwargs.
  bool reads(std::string_view name) const;

  // The prompt, as transformers' apply_chat_template renders it, with who wrote each byte. A message's null members are
  // dropped first, as there.
  jinja::TemplateResult<jinja::Text> render(const Conversation& conversation, const RenderOptions& options,
                                            const jinja::Clock& clock) const;

 private:
  explicit ChatTemplate(std::unique_ptr<const jinja::Template> parsed) : template_(std::move(parsed)) {}

  std::unique_ptr<const jinja::Template> template_;
  std::vector<std::pair<std::string, std::string>> special_tokens_;
  ContentFormat content_format_ = ContentFormat::kString;
  bool supports_developer_ = false;
};

}  // namespace unspool::chat
