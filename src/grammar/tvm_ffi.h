// The C interface of libtvm_ffi.so, through which xgrammar's library is called: its layouts, and values that own their
// references. Loaded at run time; there is nothing of it at build time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace unspool::tvm_ffi {

// Layouts of version 0.1.15. Indices of types from kFirstObject on are counted references.
enum TypeIndex : int32_t {
  kNone = 0,
  kInt = 1,
  kBool = 2,
  kTensorPointer = 7,
  kSmallString = 11,
  kFirstObject = 64,
  kString = 65,
};

struct Bytes {
  const char* data = nullptr;
  size_t size = 0;
};

struct Any {
  int32_t type_index = kNone;
  uint32_t small_size = 0;
  union {
    int64_t integer = 0;
    void* pointer;
  };
};
static_assert(sizeof(Any) == 16);

struct Tensor {  // DLTensor
  void* data = nullptr;
  int32_t device_type = 1;  // the processor
  int32_t device_id = 0;
  int32_t num_dimensions = 1;
  uint8_t type_code = 0;  // signed
  uint8_t type_bits = 32;
  uint16_t type_lanes = 1;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;
  uint64_t byte_offset = 0;
};
static_assert(sizeof(Tensor) == 48);

class Library;

// Owns what a call returned.
class Value {
 public:
  Value() = default;
  Value(const Library* library, Any any) : library_(library), any_(any) {}
  Value(Value&& other) noexcept : library_(other.library_), any_(std::exchange(other.any_, {})) {}
  Value& operator=(Value&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(any_, other.any_);
    return *this;
  }
  ~Value();
  const Any& any() const { return any_; }
  bool truth() const { return any_.integer != 0; }
  int64_t integer() const { return any_.integer; }

 private:
  const Library* library_ = nullptr;
  Any any_;
};

inline Any none() {
  return {};
}
inline Any integer(int64_t value) {
  return {kInt, 0, {value}};
}
inline Any boolean(bool value) {
  return {kBool, 0, {value ? 1 : 0}};
}
inline Any tensor(Tensor& value) {
  Any any{kTensorPointer, 0, {0}};
  any.pointer = &value;
  return any;
}

// A function of the library's tables; lives as long as the library.
using Function = void*;

class Library {
 public:
  // Errors: kNotFound where it is not there, kInvalidArgument where it is another version.
  static Result<std::unique_ptr<Library>> load(const std::filesystem::path& path);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Errors are the callee's, in its words.
  Result<Value> call(Function function, std::initializer_list<Any> arguments) const {
    return call(function, std::span(arguments.begin(), arguments.size()));
  }
  Result<Value> call(Function function, std::span<const Any> arguments) const;

  Result<Function> method(std::string_view type, std::string_view name) const;
  Result<Function> global(std::string_view name) const;
  Result<Value> string(std::string_view text) const;
  Result<Value> bytes(std::string_view text) const;
  Result<Value> array(std::span<const Any> elements) const;

 private:
  friend class Value;
  struct Symbols;
  explicit Library(const Symbols& symbols);
  Error take_error() const;

  std::shared_ptr<const Symbols> symbols_;
  Function make_array_ = nullptr;
};

}  // namespace unspool::tvm_ffi
