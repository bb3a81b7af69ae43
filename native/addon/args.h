// Arguments of functions that borrow typed arrays instead of copying them, and the one way such functions
// run: at once or off the main thread.
//
// A call has three parts. (1) The door, on the event loop: every argument is read and checked, results are
// made; what is wrong throws here, before any work, with the caller's stack. (2) The work: borrows pointers,
// knows nothing of JavaScript, may run on another thread. (3) The answer, on the event loop.
//
//   Call twice(Args& in) {
//     auto x = in.array<const float>("x", in.integer("rows", 1, 1 << 20));
//     auto y = in.result<float>("y", x.size);
//     return {[=](Lane& lane) { double_rows(x.data, x.size, y.data, lane); }};
//   }
//   … run_call(info, Mode::Async, "twice", twice) …
#pragma once
#include <napi.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "native/addon/failure.h"
#include "native/addon/fields.h"
#include "native/base/dtype.h"
#include "native/base/lanes.h"

namespace openclaw {

// Elements that JavaScript keeps alive for as long as the call holds a reference (Args does).
template <class T>
struct Borrowed {
  T* data = nullptr;  // null: the argument is absent
  int64_t size = 0;
  explicit operator bool() const { return data != nullptr; }
};

// What a typed array's elements are, in C++ and in messages.
template <class T>
struct Element;
template <>
struct Element<float> {
  static constexpr napi_typedarray_type type = napi_float32_array;
  static constexpr const char* name = "Float32Array";
};
template <>
struct Element<double> {
  static constexpr napi_typedarray_type type = napi_float64_array;
  static constexpr const char* name = "Float64Array";
};
template <>
struct Element<int32_t> {
  static constexpr napi_typedarray_type type = napi_int32_array;
  static constexpr const char* name = "Int32Array";
};
template <>
struct Element<uint16_t> {
  static constexpr napi_typedarray_type type = napi_uint16_array;
  static constexpr const char* name = "Uint16Array";
};
template <>
struct Element<uint8_t> {
  static constexpr napi_typedarray_type type = napi_uint8_array;
  static constexpr const char* name = "Uint8Array";
};

// A typed array of whatever kind, as it lies.
struct AnyArray {
  napi_typedarray_type type;
  void* data;
  int64_t size;
};

// The options object of one call: reads and checks, keeps alive what was borrowed, collects the results.
// Every message names the argument first ("logitStats.k: expected 1..8, got 9"); the JavaScript error carries
// it as `argument` ("k").
class Args : public Fields {
 public:
  // name: what is called; messages begin with "<name>.<argument>: ".
  Args(Napi::Value options, const char* name);

  // A typed array of exactly `size` elements; size < 0: any length above 0. Absent or of another kind:
  // E_DTYPE; of another length, empty or detached: E_SHAPE.
  template <class T>
  Borrowed<T> array(const char* key, int64_t size) {
    using E = Element<std::remove_const_t<T>>;
    AnyArray a = borrow(key, {E::type}, E::name);
    check_length(key, a.size, size);
    return {(T*)a.data, a.size};
  }
  // The same, or an empty Borrowed when the argument is undefined or null.
  template <class T>
  Borrowed<T> optional_array(const char* key, int64_t size) {
    return has(key) ? array<T>(key, size) : Borrowed<T>{};
  }
  // A typed array of one of several kinds. expected: "a Float32Array or a Uint16Array".
  AnyArray borrow(const char* key, std::initializer_list<napi_typedarray_type> kinds, const char* expected);
  void check_length(const char* key, int64_t got, int64_t expected) const;

  // A new array among the results, zeroed.
  template <class T>
  Borrowed<T> result(const char* key, int64_t size) {
    auto made = Napi::TypedArrayOf<T>::New(env_, (size_t)size, Element<T>::type);
    results_.Set(key, made);
    return {made.Data(), size};
  }
  // An array that lies in the results and is written: the caller's own under `key` when given, else a new
  // one.
  template <class T>
  Borrowed<T> result_into(const char* key, int64_t size) {
    if (!has(key)) return result<T>(key, size);
    results_.Set(key, get(key));
    return array<T>(key, size);
  }
  void give(const char* key, double number) { results_.Set(key, Napi::Number::New(env_, number)); }
  Napi::Object results() const { return results_; }

  // --- values at the door. Each names `key` and the place of the first offender.
  void check_finite(const char* key, Borrowed<const float> values) const;  // E_NOT_FINITE
  // E_TOKEN_ID outside lowest..vocab-1; lowest -1 lets padding (any id < 0) through.
  void check_ids(const char* key, Borrowed<const int32_t> ids, int64_t vocab, int32_t lowest) const;

  // For work on another thread. hold(): everything borrowed and made stays alive. resume(): back on the event
  // loop; E_ARGUMENT when an array was detached (transferred) meanwhile.
  void hold();
  void resume();

 private:
  struct Loan {
    std::string key;
    int64_t size;
  };
  Napi::Env env_;
  Napi::Object results_;
  Napi::Array kept_;  // results_, then the borrowed arrays in the order of loans_
  Napi::ObjectReference held_;
  std::vector<Loan> loans_;
};

// --- running a call
enum class Mode { Sync, Async };

struct Call {
  std::function<void(Lane&)> work;              // borrows only; on another thread when Mode::Async
  std::function<void(Args&)> answer = nullptr;  // on the event loop, after the work: adds numbers
  int threads = 0;                              // 1: the calling thread alone; 0: as many as the machine has
};
using Door = Call (*)(Args&);

// Opens the door, runs the call; its results, or a promise of them (Async). What is thrown at the door is an
// exception (Sync) or a rejection (Async), with the caller's stack either way.
Napi::Value run_call(const Napi::CallbackInfo& info, Mode mode, const char* name, Door door);

// exports.<name> and exports.<name>Async. `name` is a literal.
void define_call(Napi::Object exports, const char* name, Door door);

}  // namespace openclaw
