#include "jinja/json_value.h"

#include "jinja/characters.h"
#include "jinja/template_error.h"

namespace unspool::jinja {

Value from_json(const JsonValue& json, Origin origin) {
  switch (json.type()) {
    case JsonType::kNull:
      break;
    case JsonType::kBool:
      return Value::boolean(*json.as_bool());
    case JsonType::kInteger:
      return Value::integer(*json.as_int64());
    case JsonType::kUnsigned: {
      const auto value = parse_integer(json.dump(), 10);
      if (!value) fail_unsupported("the integer " + json.dump() + " is not supported");
      return Value::integer(*value);
    }
    case JsonType::kDouble:
      return Value::number(*json.as_double());
    case JsonType::kString:
      return Value::string(Text(std::string(*json.as_string()), origin));
    case JsonType::kArray: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const JsonValue& item : json.elements()) items.push_back(from_json(item, origin));
      return Value::list(std::move(items));
    }
    case JsonType::kObject: {
      Dict dict;
      for (const auto& [key, value] : json.members()) {
        dict.set(Value::string(Text(std::string(key), origin)), from_json(value, origin));
      }
      return Value::dict(std::move(dict));
    }
  }
  return Value::none();
}

}  // namespace unspool::jinja
