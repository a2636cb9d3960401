#include "protocol/chat_grammar.h"

#include <utility>

#include "chat/output_parser.h"
#include "protocol/prompt_tokens.h"

namespace unspool {

void constrain_to_calls(const ChatRequest& request, SamplingFields& fields, const ServingConfig& config) {
  const ToolFields& tools = request.tools;
  if (!config.chat.parses_tools() || tools.choice == chat::ToolChoice::kNone || tools.choice_is_null) return;
  StructuredOutputsFields& outputs = fields.structured_outputs;
  // `auto` leaves the request's own constraint its say, and what is wrong with it its answer.
  const bool keeps_own = tools.choice == chat::ToolChoice::kAuto;
  if (keeps_own && (outputs.conflict || check_constraint(outputs, config))) return;
  chat::ToolGrammarRequest asked;
  asked.tools = request.chat.tools;
  asked.tool_choice = tools.choice;
  asked.function_name = tools.function;
  asked.parallel_tool_calls = tools.parallel;
  asked.strict_level = config.chat.tool_strict_level;
  if (keeps_own) asked.output_format = to_structural_format(outputs, config);
  auto grammar = config.chat.parsers->tool_grammar(asked);
  if (!grammar) return;
  if (grammar->kind == chat::ToolGrammar::Kind::kStructuralTag) {
    constrain_to_structural_tag(outputs, std::move(grammar->text));
  } else {
    constrain_to_schema(outputs, std::move(grammar->text));
  }
}

void free_reasoning(const ChatRequest& request, const std::vector<int64_t>& prompt_ids, bool enable_thinking,
                    SamplingFields& fields, const ServingConfig& config) {
  auto& ends = fields.structured_outputs.reasoning_ends;
  ends.clear();
  // Reasoning that is not shown is none that is free.
  if (!config.chat.parses_reasoning() || !request.include_reasoning) return;
  for (const auto& end : config.chat.parsers->reasoning_ends(to_token_ids(prompt_ids), enable_thinking)) {
    ends.push_back({end.token_id, end.is_content});
  }
}

}  // namespace unspool
