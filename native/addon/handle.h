// JavaScript objects that stand for native ones: type-tagged, so that a method called on the wrong object, or
// a handle of another kind passed as an argument, is an error with a code and never a wrong cast.
//
// T has: static constexpr napi_type_tag kTag; static constexpr const char* kName ("a trainer").
// The native object is owned by the JavaScript one and destroyed by its finaliser, on the event-loop thread.
#pragma once
#include <napi.h>

#include <initializer_list>
#include <memory>

#include "native/addon/failure.h"

namespace openclaw {

template <class T>
T& unwrap(Napi::Value value, const char* argument) {
  Napi::Env env = value.Env();
  bool tagged = false;
  if (value.IsObject()) napi_check_object_type_tag(env, value, &T::kTag, &tagged);
  void* native = nullptr;
  if (tagged) napi_unwrap(env, value, &native);
  OC_CHECK(native, Code::E_ARGUMENT, "%s: expected %s of this package", argument, T::kName);
  return *(T*)native;
}

// A method of T as a JavaScript function: finds the native object behind `this`, turns errors into exceptions
// with a code.
template <class T, Napi::Value (T::*method)(const Napi::CallbackInfo&)>
Napi::Value call_method(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return (unwrap<T>(info.This(), "this").*method)(info); });
}

// The same for methods that return a promise: every error is a rejection.
template <class T, Napi::Value (T::*method)(const Napi::CallbackInfo&)>
Napi::Value call_async_method(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] { return (unwrap<T>(info.This(), "this").*method)(info); });
}

struct Method {
  const char* name;
  Napi::Value (*call)(const Napi::CallbackInfo&);
};

template <Napi::Value (*call)(const Napi::CallbackInfo&)>
void define_method(Napi::Object object, const char* name) {
  object.DefineProperty(
      Napi::PropertyDescriptor::Value(name, Napi::Function::New<call>(object.Env(), name), napi_enumerable));
}

// An object that owns `native`; the caller adds its methods with define_method.
template <class T>
Napi::Object make_handle(Napi::Env env, std::unique_ptr<T> native) {
  Napi::Object object = Napi::Object::New(env);
  napi_status status = napi_type_tag_object(env, object, &T::kTag);
  NAPI_THROW_IF_FAILED(env, status, object);
  auto finalize = [](napi_env, void* data, void*) { delete (T*)data; };
  status = napi_wrap(env, object, native.get(), finalize, nullptr, nullptr);
  NAPI_THROW_IF_FAILED(env, status, object);
  native.release();
  return object;
}

}  // namespace openclaw
