// Reads the fields of an options object: each of the right kind and in range, or an error that names the
// field. Values are copied: native threads never look into JavaScript's memory.
#pragma once
#include <napi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/base/error.h"

namespace openclaw {

class Fields {
 public:
  // name: what the object is called in messages ("request"). Throws E_ARGUMENT when value is not an object.
  Fields(Napi::Value value, std::string name);

  bool has(const char* key) const;  // present and neither undefined nor null
  int64_t integer(const char* key, int64_t lowest, int64_t highest) const;
  int64_t integer(const char* key, int64_t lowest, int64_t highest, int64_t otherwise) const;
  double number(const char* key, double lowest, double highest) const;
  double number(const char* key, double lowest, double highest, double otherwise) const;
  bool boolean(const char* key) const;
  bool boolean(const char* key, bool otherwise) const;
  std::string text(const char* key) const;
  // One of the names; returns its index.
  int choice(const char* key, const std::vector<std::string>& names) const;
  std::vector<int32_t> int32s(const char* key) const;
  std::vector<float> floats(const char* key) const;
  Napi::Array array(const char* key) const;
  Fields object(const char* key) const;
  Napi::Value get(const char* key) const { return object_.Get(key); }
  std::vector<std::string> keys() const;
  std::string path(const std::string& key) const { return name_ + "." + key; }

 private:
  Napi::Object object_;
  std::string name_;
};

// A copy of an Int32Array / Float32Array; E_DTYPE naming `argument` when the value is another thing.
std::vector<int32_t> copy_int32s(Napi::Value value, const std::string& argument);
std::vector<float> copy_floats(Napi::Value value, const std::string& argument);

Napi::Int32Array int32_array(Napi::Env env, const std::vector<int32_t>& values);
Napi::Float32Array float32_array(Napi::Env env, const std::vector<float>& values);

// "a string", "an array", "3" … for messages.
std::string describe(Napi::Value value);

}  // namespace openclaw
