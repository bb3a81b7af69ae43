// The check every door makes on token ids.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "native/base/error.h"

namespace openclaw {

// Throws E_TOKEN_ID at the first id outside 0..vocab-1, naming its place.
inline void check_token_ids(const std::vector<int32_t>& ids, int64_t vocab, const std::string& argument) {
  for (size_t i = 0; i < ids.size(); i++)
    OC_CHECK(ids[i] >= 0 && ids[i] < vocab, Code::E_TOKEN_ID,
             "%s[%zu]: expected a token id in 0..%lld, got %d", argument.c_str(), i, (long long)vocab - 1,
             ids[i]);
}

}  // namespace openclaw
