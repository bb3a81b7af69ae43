// Where native errors become JavaScript errors: an Error with `code` and the native message.
#pragma once
#include <napi.h>

#include <exception>
#include <new>

#include "native/base/error.h"

namespace openclaw {

// The JavaScript error for whatever was thrown. Errors of our own keep their code; std::bad_alloc is
// E_MEMORY; anything else is E_INTERNAL. A Napi::Error is returned as it is.
inline Napi::Error js_error(Napi::Env env, std::exception_ptr thrown) {
  auto with_code = [env](Code code, const char* message) {
    Napi::Error error = Napi::Error::New(env, message);
    error.Set("code", Napi::String::New(env, code_name(code)));
    return error;
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const Napi::Error& error) {
    return error;
  } catch (const Error& error) {
    return with_code(error.code, error.what());
  } catch (const std::bad_alloc&) {
    return with_code(Code::E_MEMORY, "memory could not be had");
  } catch (const std::exception& error) {
    return with_code(Code::E_INTERNAL, error.what());
  }
}

// Runs `body`; what it throws is thrown into JavaScript.
template <class Body>
Napi::Value guarded(Napi::Env env, Body body) {
  try {
    return body();
  } catch (const Napi::Error&) {
    throw;
  } catch (...) {
    throw js_error(env, std::current_exception());
  }
}

// Runs `body`, which returns a promise; what it throws becomes a rejected one.
template <class Body>
Napi::Value rejecting(Napi::Env env, Body body) {
  try {
    return body();
  } catch (...) {
    auto deferred = Napi::Promise::Deferred::New(env);
    deferred.Reject(js_error(env, std::current_exception()).Value());
    return deferred.Promise();
  }
}

}  // namespace openclaw
