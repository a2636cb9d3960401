#include "chat/tool_definitions.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/json_value.h"
#include "jinja/template_error.h"

namespace unspool::chat {
namespace {

using jinja::Dict;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

bool is_left_out(std::string_view key, const JsonValue& value) {
  return value.is_null() && (key == "strict" || key == "defer_loading");
}

// The members that are always there come first, as the caller has set them; the others follow as they came.
Value with_others(Dict first, const JsonValue& json, std::initializer_list<std::string_view> declared) {
  for (const auto& [key, value] : json.members()) {
    if (is_left_out(key, value) || std::find(declared.begin(), declared.end(), key) != declared.end()) continue;
    first.set(Value::string(Text(std::string(key), Origin::kInput)), jinja::from_json(value, Origin::kInput));
  }
  return Value::dict(std::move(first));
}

Value read_function(const JsonValue& function) {
  Dict out;
  for (const std::string_view key : {"name", "description", "parameters"}) {
    out.set(Value::string(key), jinja::from_json(function[key], Origin::kInput));
  }
  return with_others(std::move(out), function, {"name", "description", "parameters"});
}

Value read_tool(const JsonValue& tool) {
  Dict out;
  out.set(Value::string("type"), Value::string("function"));
  out.set(Value::string("function"), read_function(tool["function"]));
  return with_others(std::move(out), tool, {"type", "function"});
}

}  // namespace

Result<Value> read_tools(const JsonValue& tools) {
  try {
    std::vector<Value> out;
    for (const JsonValue& tool : tools.elements()) out.push_back(read_tool(tool));
    return Value::list(std::move(out));
  } catch (const jinja::Fault& fault) {
    return invalid_argument(fault.error.message);
  }
}

}  // namespace unspool::chat
