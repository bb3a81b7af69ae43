#include "native/model/versions.h"

#include "native/base/error.h"

namespace openclaw {
namespace {

// A name costs about a hundred bytes for the life of the policy; at one version a minute this lasts two
// years.
constexpr size_t kMostNames = 1 << 20;

}  // namespace

Versions::Versions(Snapshot live) {
  Snapshot base = live;
  base.adapter = nullptr;
  claim(live.version);
  bool same = live.adapter == nullptr;
  live_ = add(std::move(live));
  base.version = "base";
  base_ = same ? live_ : add(std::move(base));
}

VersionPtr Versions::add(Snapshot snapshot) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = held_.begin(); it != held_.end();)
    it = it->second.expired() ? held_.erase(it) : std::next(it);
  auto version = std::make_shared<const Version>(Version{std::move(snapshot), next_root_++});
  held_[version->snapshot.version] = version;
  return version;
}

VersionPtr Versions::live() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return live_;
}

VersionPtr Versions::base() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return base_;
}

VersionPtr Versions::find(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (name == "live") return live_;
  if (name == "base") return base_;
  auto it = held_.find(name);
  if (it != held_.end())
    if (VersionPtr version = it->second.lock()) return version;
  std::string list;
  for (const std::string& held : held_locked()) list += (list.empty() ? "" : ", ") + held;
  fail(Code::E_ARGUMENT, "version: expected 'live', 'base' or one still held (%s), got '%s'", list.c_str(),
       name.c_str());
}

void Versions::claim(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  OC_CHECK(!name.empty() && name.size() <= 200 && name != "live" && name != "base", Code::E_ARGUMENT,
           "version: expected a name of 1..200 bytes other than 'live' and 'base', got '%s'",
           name.substr(0, 60).c_str());
  OC_CHECK(used_.size() < kMostNames, Code::E_BUSY, "version: this policy already had %zu versions",
           used_.size());
  OC_CHECK(used_.insert(name).second, Code::E_ARGUMENT,
           "version: '%s' was used before; names are never reused", name.c_str());
}

void Versions::forget(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  used_.erase(name);
}

void Versions::make_live(Snapshot snapshot) {
  VersionPtr next = add(std::move(snapshot));
  std::lock_guard<std::mutex> lock(mutex_);
  live_.swap(next);  // the old one, if this was its last holder, is freed after the lock
}

std::vector<std::string> Versions::held_locked() const {
  std::vector<std::string> names;
  for (auto& [name, version] : held_)
    if (!version.expired()) names.push_back(name);
  return names;
}

std::vector<std::string> Versions::held() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return held_locked();
}

}  // namespace openclaw
