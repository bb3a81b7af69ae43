// The versions of the weights that exist: which one is live, which others are still held by somebody, and
// every name ever used.
//
// A version is an immutable Snapshot behind a shared pointer. Making another one live swaps the pointer;
// requests that hold the old one keep it to their last token, and when the last holder lets go it is freed.
// Names are never used twice: a cache or a record that knows a name knows the weights. All methods may be
// called from any thread.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "native/model/weights.h"

namespace openclaw {

// A snapshot and the number that stands for it in the KV cache.
struct Version {
  Snapshot snapshot;
  uint64_t root = 0;
};
using VersionPtr = std::shared_ptr<const Version>;

class Versions {
 public:
  // live: the snapshot served first. Its weights without an adapter are 'base'.
  explicit Versions(Snapshot live);

  VersionPtr live() const;
  VersionPtr base() const;
  // 'live', 'base' or a name. Throws E_ARGUMENT, listing what is held, when nothing holds that version any
  // more.
  VersionPtr find(const std::string& name) const;

  // Claims a name for a version about to be made. Throws E_ARGUMENT when it was used before or is not a name
  // (1..200 characters, not 'live' or 'base'). `forget` gives it back when making the version failed.
  void claim(const std::string& name);
  void forget(const std::string& name);
  // snapshot.version was claimed.
  void make_live(Snapshot snapshot);

  std::vector<std::string> held() const;

 private:
  VersionPtr add(Snapshot snapshot);
  std::vector<std::string> held_locked() const;

  mutable std::mutex mutex_;
  uint64_t next_root_ = 1;
  VersionPtr live_, base_;
  std::map<std::string, std::weak_ptr<const Version>> held_;
  std::set<std::string> used_;
};

}  // namespace openclaw
