// Reads the numbers of our own JSON fixtures: flat objects whose values are numbers or (nested) arrays of
// numbers.
#pragma once
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "native/base/error.h"

namespace openclaw {
namespace testing {

class JsonNumbers {
 public:
  // name: in test/native/fixtures.
  explicit JsonNumbers(const std::string& name) {
    const std::string here = __FILE__;
    const std::string path = here.substr(0, here.find_last_of('/') + 1) + "fixtures/" + name;
    std::ifstream file(path);
    OC_CHECK(file.good(), Code::E_FILE, "%s: could not be opened", path.c_str());
    std::stringstream all;
    all << file.rdbuf();
    text_ = all.str();
  }

  // The numbers of a value in the order they are written, nesting ignored.
  std::vector<double> numbers(const std::string& key) const {
    std::vector<double> out;
    const char* p = value(key);
    int depth = 0;
    do {
      if (*p == '[')
        depth++, p++;
      else if (*p == ']')
        depth--, p++;
      else if (strchr("-0123456789", *p)) {
        char* end;
        out.push_back(strtod(p, &end));
        p = end;
      } else {
        p++;
      }
    } while (depth > 0 && *p);
    return out;
  }
  double number(const std::string& key) const { return numbers(key).at(0); }

 private:
  const char* value(const std::string& key) const {
    const std::string quoted = "\"" + key + "\":";
    const size_t at = text_.find(quoted);
    OC_CHECK(at != std::string::npos, Code::E_FILE, "fixture: no %s", key.c_str());
    const char* p = text_.c_str() + at + quoted.size();
    while (*p == ' ' || *p == '\n') p++;
    return p;
  }

  std::string text_;
};

}  // namespace testing
}  // namespace openclaw
