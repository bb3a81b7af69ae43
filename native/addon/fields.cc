#include "native/addon/fields.h"

#include <cmath>
#include <cstring>

namespace openclaw {

std::string describe(Napi::Value value) {
  if (value.IsUndefined()) return "nothing";
  if (value.IsNull()) return "null";
  if (value.IsNumber() || value.IsBoolean()) return value.ToString().Utf8Value();
  if (value.IsString()) return "'" + value.ToString().Utf8Value().substr(0, 60) + "'";
  if (value.IsBigInt()) return "a bigint";
  if (value.IsArray()) return "an array";
  if (value.IsTypedArray()) return "another typed array";
  if (value.IsFunction()) return "a function";
  return value.IsObject() ? "an object" : "a symbol";
}

Fields::Fields(Napi::Value value, std::string name) : name_(std::move(name)) {
  OC_CHECK(value.IsObject() && !value.IsArray() && !value.IsFunction(), Code::E_ARGUMENT,
           "%s: expected an object, got %s", name_.c_str(), describe(value).c_str());
  object_ = value.As<Napi::Object>();
}

bool Fields::has(const char* key) const {
  Napi::Value value = get(key);
  return !value.IsUndefined() && !value.IsNull();
}

int64_t Fields::integer(const char* key, int64_t lowest, int64_t highest) const {
  Napi::Value value = get(key);
  double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : NAN;
  OC_CHECK(number == std::floor(number) && number >= (double)lowest && number <= (double)highest,
           Code::E_ARGUMENT, "%s: expected an integer from %lld to %lld, got %s", path(key).c_str(),
           (long long)lowest, (long long)highest, describe(value).c_str());
  return (int64_t)number;
}

int64_t Fields::integer(const char* key, int64_t lowest, int64_t highest, int64_t otherwise) const {
  return has(key) ? integer(key, lowest, highest) : otherwise;
}

double Fields::number(const char* key, double lowest, double highest) const {
  Napi::Value value = get(key);
  double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : NAN;
  OC_CHECK(std::isfinite(number) && number >= lowest && number <= highest, Code::E_ARGUMENT,
           "%s: expected a number from %g to %g, got %s", path(key).c_str(), lowest, highest,
           describe(value).c_str());
  return number;
}

double Fields::number(const char* key, double lowest, double highest, double otherwise) const {
  return has(key) ? number(key, lowest, highest) : otherwise;
}

bool Fields::boolean(const char* key) const {
  Napi::Value value = get(key);
  OC_CHECK(value.IsBoolean(), Code::E_ARGUMENT, "%s: expected true or false, got %s", path(key).c_str(),
           describe(value).c_str());
  return value.As<Napi::Boolean>().Value();
}

bool Fields::boolean(const char* key, bool otherwise) const { return has(key) ? boolean(key) : otherwise; }

std::string Fields::text(const char* key) const {
  Napi::Value value = get(key);
  OC_CHECK(value.IsString(), Code::E_ARGUMENT, "%s: expected a string, got %s", path(key).c_str(),
           describe(value).c_str());
  return value.As<Napi::String>().Utf8Value();
}

int Fields::choice(const char* key, const std::vector<std::string>& names) const {
  std::string got = text(key), list;
  for (size_t i = 0; i < names.size(); i++) {
    if (names[i] == got) return (int)i;
    list += (i ? ", " : "") + names[i];
  }
  fail(Code::E_ARGUMENT, "%s: expected one of %s, got '%s'", path(key).c_str(), list.c_str(),
       got.substr(0, 60).c_str());
}

std::vector<int32_t> Fields::int32s(const char* key) const { return copy_int32s(get(key), path(key)); }
std::vector<float> Fields::floats(const char* key) const { return copy_floats(get(key), path(key)); }

Napi::Array Fields::array(const char* key) const {
  Napi::Value value = get(key);
  OC_CHECK(value.IsArray(), Code::E_ARGUMENT, "%s: expected an array, got %s", path(key).c_str(),
           describe(value).c_str());
  return value.As<Napi::Array>();
}

Fields Fields::object(const char* key) const { return Fields(get(key), path(key)); }

std::vector<std::string> Fields::keys() const {
  Napi::Array names = object_.GetPropertyNames();
  std::vector<std::string> out;
  for (uint32_t i = 0; i < names.Length(); i++) out.push_back(names.Get(i).ToString().Utf8Value());
  return out;
}

namespace {

// Element type and buffer are checked before anything is read: a detached or shared buffer has no bytes to
// copy.
template <class Array, class T>
std::vector<T> copy_array(Napi::Value value, napi_typedarray_type type, const char* kind,
                          const std::string& argument) {
  bool fits = value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == type;
  OC_CHECK(fits, Code::E_DTYPE, "%s: expected %s, got %s", argument.c_str(), kind, describe(value).c_str());
  Array array = value.As<Array>();
  std::vector<T> out(array.ElementLength());
  if (!out.empty()) memcpy(out.data(), array.Data(), out.size() * sizeof(T));
  return out;
}

}  // namespace

std::vector<int32_t> copy_int32s(Napi::Value value, const std::string& argument) {
  return copy_array<Napi::Int32Array, int32_t>(value, napi_int32_array, "an Int32Array", argument);
}

std::vector<float> copy_floats(Napi::Value value, const std::string& argument) {
  return copy_array<Napi::Float32Array, float>(value, napi_float32_array, "a Float32Array", argument);
}

Napi::Int32Array int32_array(Napi::Env env, const std::vector<int32_t>& values) {
  auto array = Napi::Int32Array::New(env, values.size());
  if (!values.empty()) memcpy(array.Data(), values.data(), values.size() * sizeof(int32_t));
  return array;
}

Napi::Float32Array float32_array(Napi::Env env, const std::vector<float>& values) {
  auto array = Napi::Float32Array::New(env, values.size());
  if (!values.empty()) memcpy(array.Data(), values.data(), values.size() * sizeof(float));
  return array;
}

}  // namespace openclaw
