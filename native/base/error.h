// Errors of the native code: a code from one table, and a sentence naming the argument, what was expected and
// what came. CHECK throws and never exits: a fault in one call must not end the host's process.
#pragma once
#include <cstdarg>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace openclaw {

// The codes JavaScript sees as error.code. Add here and in ts/record/errors.ts (a test compares the two).
#define OPENCLAW_ERROR_CODES(X)                                                           \
  X(E_ARGUMENT)    /* a value is out of its range or of the wrong kind */                 \
  X(E_SHAPE)       /* lengths of arguments do not fit together */                         \
  X(E_DTYPE)       /* an array has the wrong element type */                              \
  X(E_NOT_FINITE)  /* NaN or infinity where a finite number is needed */                  \
  X(E_TOKEN_ID)    /* a token id outside 0..V-1 */                                        \
  X(E_CONTEXT)     /* more tokens than the context holds */                               \
  X(E_FILE)        /* a file is missing, damaged, truncated or of another kind */         \
  X(E_UNSUPPORTED) /* a known feature this build does not have; named in the message */   \
  X(E_DISPOSED)    /* use of a handle after dispose() or close() */                       \
  X(E_BUSY)        /* a bounded queue is full, or the object is in use by another call */ \
  X(E_ABORTED)     /* the caller aborted the work */                                      \
  X(E_DEADLINE)    /* the caller's deadline passed */                                     \
  X(E_MEMORY)      /* memory could not be had */                                          \
  X(E_INTERNAL)    /* a broken invariant of ours */

enum class Code {
#define X(name) name,
  OPENCLAW_ERROR_CODES(X)
#undef X
};

inline const char* code_name(Code c) {
  switch (c) {
#define X(name)    \
  case Code::name: \
    return #name;
    OPENCLAW_ERROR_CODES(X)
#undef X
  }
  return "E_INTERNAL";
}

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code(code) {}
  Code code;
};

[[noreturn]] __attribute__((format(printf, 2, 3))) inline void fail(Code code, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw Error(code, text);
}

// OC_CHECK(k >= 1, Code::E_ARGUMENT, "k: expected 1..%d, got %d", V, k)
#define OC_CHECK(condition, ...)                                          \
  do {                                                                    \
    if (__builtin_expect(!(condition), 0)) ::openclaw::fail(__VA_ARGS__); \
  } while (0)

}  // namespace openclaw
