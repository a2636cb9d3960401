#include "protocol/control_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "json/json_writer.h"
#include "protocol/field_reader.h"
#include "protocol/python_text.h"
#include "protocol/request_body.h"

namespace unspool {
namespace {

// A query as an object of strings, so that its fields are read, and refused, as those of a body. Of two members of one
// name the last one counts, as of two parameters.
JsonDocument query_document(const QueryParameters& query) {
  JsonWriter w;
  w.begin_object();
  for (const auto& [name, value] : query) {
    w.key(name);
    w.string(value);
  }
  w.end_object();
  return std::move(JsonDocument::parse(w.str())).value();
}

// A body that the reference does not ask for may be missing or of any type; only what is no JSON is refused.
ApiResult<JsonDocument> parse_lenient(std::string_view body) {
  static const std::string kJson = "application/json";
  return parse_body(&kJson, body.empty() ? "{}" : body);
}

std::string one_of(std::span<const std::string_view> words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += python::repr(words[i]);
  }
  return out;
}

// One of a few words, as pydantic's Literal: returns its place.
std::optional<size_t> read_word(FieldReader& reader, std::string_view name, std::span<const std::string_view> words) {
  const auto value = reader.find(name);
  if (!value) return std::nullopt;
  const auto at = std::find(words.begin(), words.end(), value->as_string().value_or(std::string_view()));
  if (value->is_string() && at != words.end()) return static_cast<size_t>(at - words.begin());
  const std::string expected = one_of(words);
  reader.errors().add({"literal_error", reader.loc(name), "Input should be " + expected, describe_input(*value),
                       fmt::format("{{'expected': {}}}", python::repr(std::string_view(expected)))});
  return std::nullopt;
}

constexpr std::string_view kModes[] = {"abort", "wait", "keep"};

void read_mode(FieldReader& reader, std::string& mode) {
  if (const auto place = read_word(reader, "mode", kModes)) mode = kModes[*place];
}

// A body parameter of its own, in FastAPI's terms: where it is missing, nothing was the input.
void missing_field(FieldReader& reader, std::string_view name) {
  reader.errors().add({"missing", reader.loc(name), "Field required", "None", {}});
}

ApiResult<JsonDocument> parse_json(std::string_view body, std::string_view refusal) {
  JsonSyntaxError syntax;
  auto document = JsonDocument::parse(body, &syntax);
  if (document.ok()) return std::move(document).value();
  return framework_error(refusal.empty() ? json_decode_error(body, syntax) : std::string(refusal));
}

void read_baseline(FieldReader& reader, std::map<std::string, std::string>& out) {
  std::optional<JsonValue> object;
  reader.read_object("baseline", object);
  if (!object) return;
  for (const auto& [name, value] : object->members()) {
    auto text = coerce_string(value, fmt::format("{}.{}", reader.loc("baseline"), name), reader.errors());
    if (text) out[std::string(name)] = std::move(*text);
  }
}

}  // namespace

ApiResult<PauseQuery> parse_pause_query(const QueryParameters& query) {
  const JsonDocument document = query_document(query);
  FieldErrors errors;
  FieldReader reader(document.root(), "query", errors);
  PauseQuery out;
  read_mode(reader, out.mode);
  reader.read("clear_cache", out.clear_cache);
  if (!errors.empty()) return errors.to_api_error();
  return out;
}

ApiResult<SleepQuery> parse_sleep_query(const QueryParameters& query) {
  const JsonDocument document = query_document(query);
  FieldErrors errors;
  FieldReader reader(document.root(), "query", errors);
  SleepQuery out;
  int64_t level = out.level;
  reader.read("level", level, {.ge = 0, .le = 2});
  read_mode(reader, out.mode);
  if (!errors.empty()) return errors.to_api_error();
  out.level = static_cast<int>(level);
  return out;
}

std::optional<std::vector<std::string>> wake_tags(const QueryParameters& query) {
  std::optional<std::vector<std::string>> tags;
  for (const auto& [name, value] : query) {
    if (name != "tags") continue;
    if (!tags) tags.emplace();
    tags->push_back(value);
  }
  return tags;
}

ApiResult<ResetPrefixCache> parse_reset_prefix_cache(const QueryParameters& query, std::string_view body) {
  ResetPrefixCache out;
  FieldErrors errors;
  const auto read = [&](const JsonValue& object, const char* loc) {
    FieldReader reader(object, loc, errors);
    reader.read("reset_running_requests", out.reset_running_requests);
    reader.read("reset_external", out.reset_external);
  };
  // The reference does not look at a body at all, so one that is no object is no fault.
  if (const auto document = JsonDocument::parse(body); document.ok()) read(document->root(), "body");
  read(query_document(query).root(), "query");
  if (!errors.empty()) return errors.to_api_error();
  return out;
}

ApiResult<bool> parse_config_format(const QueryParameters& query) {
  const JsonDocument document = query_document(query);
  FieldErrors errors;
  FieldReader reader(document.root(), "query", errors);
  constexpr std::string_view kFormats[] = {"text", "json"};
  const size_t format = read_word(reader, "config_format", kFormats).value_or(0);
  if (!errors.empty()) return errors.to_api_error();
  return format == 1;
}

ApiResult<bool> parse_include_dp(const QueryParameters& query) {
  const JsonDocument document = query_document(query);
  FieldErrors errors;
  FieldReader reader(document.root(), "query", errors);
  bool include_dp = true;
  reader.read("include_dp", include_dp);
  if (!errors.empty()) return errors.to_api_error();
  return include_dp;
}

ApiResult<std::vector<std::string>> parse_abort_all_request(std::string_view body) {
  const auto document = parse_json(body, "Invalid JSON format");
  if (!document.ok()) return document.error();
  if (!document->root().is_object()) return framework_error("Request body must be a JSON object");
  const JsonValue ids = document->root()["request_ids"];
  std::vector<std::string> out;
  for (const JsonValue& id : ids.elements()) {
    if (const auto text = id.as_string()) out.emplace_back(*text);
  }
  // A wrong list must not be taken for an empty one, which means every request.
  if ((!ids.is_null() && !ids.is_array()) || out.size() != ids.size()) {
    return framework_error("'request_ids' must be a list of strings");
  }
  return out;
}

ApiResult<std::string> parse_new_version(std::string_view body) {
  const auto document = parse_lenient(body);
  if (!document.ok()) return document.error();
  FieldErrors errors;
  FieldReader reader(document->root(), "body", errors);
  std::string version;
  if (reader.find("new_version")) {
    reader.read("new_version", version);
  } else {
    missing_field(reader, "new_version");
  }
  if (!errors.empty()) return errors.to_api_error();
  return version;
}

ApiResult<WeightCheck> parse_weight_check(std::string_view body) {
  const auto document = parse_lenient(body);
  if (!document.ok()) return document.error();
  FieldErrors errors;
  FieldReader reader(document->root(), "body", errors);
  WeightCheck out;
  constexpr std::string_view kActions[] = {"checksum", "reset", "compare"};
  if (!reader.find("action")) missing_field(reader, "action");
  out.action = static_cast<WeightCheck::Action>(read_word(reader, "action", kActions).value_or(0));
  read_baseline(reader, out.baseline);
  if (!errors.empty()) return errors.to_api_error();
  if (out.action == WeightCheck::Action::kCompare && document->root()["baseline"].is_null()) {
    return framework_error("action='compare' requires a 'baseline' object");
  }
  return out;
}

ApiResult<JsonDocument> parse_init_transfer(std::string_view body) {
  auto document = parse_lenient(body);
  if (!document.ok()) return document.error();
  FieldErrors errors;
  FieldReader reader(document->root(), "body", errors);
  const auto info = reader.find("init_info");
  if (!info) {
    missing_field(reader, "init_info");
  } else if (!info->is_object()) {
    errors.add({"dict_type", "body.init_info", "Input should be a valid dictionary", describe_input(*info), {}});
  }
  if (!errors.empty()) return errors.to_api_error();
  return document;
}

ApiResult<JsonDocument> parse_update_weights(std::string_view body) {
  auto document = parse_lenient(body);
  if (!document.ok()) return document.error();
  FieldErrors errors;
  FieldReader reader(document->root(), "body", errors);
  const auto info = reader.find("update_info");
  const auto directory = reader.find("weight_dir");
  if (!info && directory) {
    if (!directory->is_null()) coerce_string(*directory, "body.weight_dir", errors);
  } else if (!info) {
    missing_field(reader, "update_info");
  } else if (!info->is_object() && !info->is_array()) {
    errors.add({"dict_type", "body.update_info", "Input should be a valid dictionary", describe_input(*info), {}});
  }
  if (!errors.empty()) return errors.to_api_error();
  return document;
}

ApiResult<StartUpdate> parse_start_update(std::string_view body) {
  std::optional<bool> partial, is_checkpoint_format;
  StartUpdate out;
  const auto document = JsonDocument::parse(body);
  if (!document.ok()) return out;
  FieldErrors errors;
  FieldReader reader(document->root(), "body", errors);
  reader.read("partial", partial);
  reader.read("is_checkpoint_format", is_checkpoint_format);
  reader.read("session", out.session);
  if (!errors.empty()) return errors.to_api_error();
  if (!is_checkpoint_format.value_or(true)) {
    return bad_request_for(
        "is_checkpoint_format: expected true, got false: weights are taken by the names and shapes of a Hugging Face "
        "checkpoint",
        "is_checkpoint_format");
  }
  out.partial = partial.value_or(false);
  return out;
}

ApiResult<FinishUpdate> parse_finish_update(std::string_view body) {
  const auto document = parse_lenient(body);
  if (!document.ok()) return document.error();
  FieldErrors errors;
  FieldReader reader(document->root(), "body", errors);
  FinishUpdate out;
  reader.read("weight_version", out.version);
  reader.read("session", out.session);
  if (!errors.empty()) return errors.to_api_error();
  return out;
}

ApiResult<std::string> parse_model_path(std::string_view body) {
  const auto document = parse_lenient(body);
  if (!document.ok()) return document.error();
  FieldErrors errors;
  FieldReader reader(document->root(), "body", errors);
  std::string path;
  if (reader.find("model_path")) {
    reader.read("model_path", path);
  } else {
    missing_field(reader, "model_path");
  }
  if (!errors.empty()) return errors.to_api_error();
  return path;
}

ApiResult<RpcRequest> parse_rpc_request(std::string_view body) {
  auto document = parse_json(body, {});
  if (!document.ok()) return document.error();
  const JsonValue root = document->root();
  if (!root.is_object()) return framework_error("Request body must be a JSON object");
  const JsonValue method = root["method"];
  if (!truthy(method)) return framework_error("Missing 'method' in request body");
  if (!method.is_string()) return framework_error("'method' must be a string");
  const JsonValue args = root["args"];
  if (!args.is_null() && !args.is_array()) return framework_error("'args' must be a list");
  const JsonValue kwargs = root["kwargs"];
  if (!kwargs.is_null() && !kwargs.is_object()) return framework_error("'kwargs' must be an object");
  return RpcRequest{std::move(*document), std::string(*method.as_string()), args.elements(), kwargs};
}

}  // namespace unspool
