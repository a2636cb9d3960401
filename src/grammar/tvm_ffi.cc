#include "grammar/tvm_ffi.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace unspool::tvm_ffi {
namespace {

constexpr const char* kVersion = "0.1.15";
constexpr size_t kObjectHeaderBytes = 24;  // the count of references, the type's index, the deleter

struct Version {
  uint32_t major = 0;
  uint32_t minor = 0;
  uint32_t patch = 0;
};

struct MethodInfo {
  Bytes name;
  Bytes documentation;
  Bytes metadata;
  int64_t flags = 0;
  Any method;
};

struct TypeInfo {
  int32_t type_index = 0;
  int32_t depth = 0;
  Bytes key;
  const void* ancestors = nullptr;
  uint64_t key_hash = 0;
  int32_t num_fields = 0;
  int32_t num_methods = 0;
  const void* fields = nullptr;
  const MethodInfo* methods = nullptr;
};

std::string_view view(const Bytes& bytes) {
  return {bytes.data, bytes.size};
}
Bytes as_bytes(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

struct Library::Symbols {
  void (*get_version)(Version*) = nullptr;
  int (*drop_reference)(void*) = nullptr;
  int (*type_of_key)(const Bytes*, int32_t*) = nullptr;
  const TypeInfo* (*type_info)(int32_t) = nullptr;
  int (*global_function)(const Bytes*, void**) = nullptr;
  int (*call)(void*, const Any*, int32_t, Any*) = nullptr;
  int (*make_string)(const Bytes*, Any*) = nullptr;
  int (*make_bytes)(const Bytes*, Any*) = nullptr;
  void (*take_error)(void**) = nullptr;
};

Value::~Value() {
  if (any_.type_index >= kFirstObject) library_->symbols_->drop_reference(any_.pointer);
}

Library::Library(const Symbols& symbols) : symbols_(std::make_shared<Symbols>(symbols)) {}

Result<std::unique_ptr<Library>> Library::load(const std::filesystem::path& path) {
  // Never unloaded: threads that were given up may still be in it. Global, since xgrammar's library looks for its
  // symbols.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return not_found(dlerror());
  Symbols symbols;
  bool complete = true;
  const auto find = [&](auto& out, const char* name) {
    out = reinterpret_cast<std::remove_reference_t<decltype(out)>>(dlsym(handle, name));
    complete = complete && out != nullptr;
  };
  find(symbols.get_version, "TVMFFIGetVersion");
  find(symbols.drop_reference, "TVMFFIObjectDecRef");
  find(symbols.type_of_key, "TVMFFITypeKeyToIndex");
  find(symbols.type_info, "TVMFFIGetTypeInfo");
  find(symbols.global_function, "TVMFFIFunctionGetGlobal");
  find(symbols.call, "TVMFFIFunctionCall");
  find(symbols.make_string, "TVMFFIStringFromByteArray");
  find(symbols.make_bytes, "TVMFFIBytesFromByteArray");
  find(symbols.take_error, "TVMFFIErrorMoveFromRaised");
  if (!complete) return invalid_argument(fmt::format("{} lacks functions of apache-tvm-ffi", path.string()));
  Version version;
  symbols.get_version(&version);
  const std::string found = fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
  if (found != kVersion) {
    return invalid_argument(fmt::format("apache-tvm-ffi is {}, expected exactly {}", found, kVersion));
  }
  std::unique_ptr<Library> library(new Library(symbols));
  UNSPOOL_ASSIGN(library->make_array_, library->global("ffi.Array"));
  return library;
}

Error Library::take_error() const {
  void* error = nullptr;
  symbols_->take_error(&error);
  if (error == nullptr) return internal_error("an error without a message");
  // Its kind, then its message.
  const auto* texts = reinterpret_cast<const Bytes*>(static_cast<const char*>(error) + kObjectHeaderBytes);
  std::string message(view(texts[1]));
  symbols_->drop_reference(error);
  return invalid_argument(std::move(message));
}

Result<Value> Library::call(Function function, std::span<const Any> arguments) const {
  Any result;
  if (symbols_->call(function, arguments.data(), static_cast<int32_t>(arguments.size()), &result) != 0) {
    return take_error();
  }
  return Value(this, result);
}

Result<Function> Library::method(std::string_view type, std::string_view name) const {
  const Bytes key = as_bytes(type);
  int32_t index = 0;
  if (symbols_->type_of_key(&key, &index) != 0) return take_error();
  const TypeInfo* info = symbols_->type_info(index);
  for (int32_t i = 0; i < info->num_methods; ++i) {
    if (view(info->methods[i].name) == name) return info->methods[i].method.pointer;
  }
  return invalid_argument(fmt::format("{} has no method {}", type, name));
}

Result<Function> Library::global(std::string_view name) const {
  const Bytes key = as_bytes(name);
  Function function = nullptr;
  if (symbols_->global_function(&key, &function) != 0) return take_error();
  if (function == nullptr) return invalid_argument(fmt::format("there is no function {}", name));
  return function;
}

Result<Value> Library::string(std::string_view text) const {
  const Bytes bytes = as_bytes(text);
  Any result;
  if (symbols_->make_string(&bytes, &result) != 0) return take_error();
  return Value(this, result);
}

Result<Value> Library::bytes(std::string_view text) const {
  const Bytes bytes = as_bytes(text);
  Any result;
  if (symbols_->make_bytes(&bytes, &result) != 0) return take_error();
  return Value(this, result);
}

Result<Value> Library::array(std::span<const Any> elements) const {
  return call(make_array_, elements);
}

}  // namespace unspool::tvm_ffi
