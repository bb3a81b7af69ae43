#include "native/model/kv_cache.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "native/base/error.h"

namespace openclaw {
namespace {

// The finaliser of MurmurHash3 (Appleby, public domain): every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

int64_t floats_of_array(const ModelConfig& c) { return c.kv_heads * KvCache::kBlock * c.head_dim; }
int64_t floats_of_page(const ModelConfig& c) { return c.layers * 2 * floats_of_array(c); }

}  // namespace

struct KvCache::Page {
  float* data = nullptr;
  int uses = 0;
  bool indexed = false;
  // Identity is given anew each time the page enters the index, so that a child can tell its parent from a
  // later tenant of the same memory.
  uint64_t identity = 0, parent = 0, root = 0, hash = 0;
  int32_t ids[kBlock];
  PageList::iterator place;  // in unused_, when indexed and uses == 0

  ~Page() { free(data); }
};

KvCache::KvCache(const ModelConfig& config, int64_t limit_bytes)
    : layers_(config.layers),
      array_floats_(floats_of_array(config)),
      page_floats_(floats_of_page(config)),
      capacity_(limit_bytes / page_bytes(config)) {
  OC_CHECK(capacity_ >= 1, Code::E_ARGUMENT,
           "kvBytes: expected at least %lld, the keys and values of %lld tokens, got %lld",
           (long long)page_bytes(config), (long long)kBlock, (long long)limit_bytes);
}

KvCache::~KvCache() = default;

int64_t KvCache::page_bytes(const ModelConfig& config) {
  return floats_of_page(config) * (int64_t)sizeof(float);
}

void KvCache::keep_only(uint64_t root) {
  kept_root_ = root;
  keep_all_ = false;
  for (auto it = unused_.begin(); it != unused_.end();) {
    Page* page = *it++;
    if (page->root == root) continue;
    drop_from_index(page);
    unused_.erase(page->place);
    free_.push_back(page);
  }
}

KvCache::Page* KvCache::allocate() {
  Page* page = nullptr;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else if ((int64_t)pages_.size() < capacity_) {
    auto fresh = std::make_unique<Page>();
    void* data = nullptr;
    // 64: the cache line and the widest vector. Memory that cannot be had counts as a pool that is full.
    if (posix_memalign(&data, 64, (size_t)page_floats_ * sizeof(float)) == 0) {
      fresh->data = (float*)data;
      page = fresh.get();
      pages_.push_back(std::move(fresh));
      allocated_bytes_.fetch_add(page_floats_ * (int64_t)sizeof(float), std::memory_order_relaxed);
    }
  }
  if (!page && !unused_.empty()) {
    page = unused_.front();
    drop_from_index(page);
    unused_.pop_front();
  }
  if (!page) return nullptr;
  page->uses = 1;
  in_use_++;
  return page;
}

void KvCache::release(Page* page) {
  if (--page->uses > 0) return;
  in_use_--;
  if (page->indexed && (keep_all_ || page->root == kept_root_)) {
    page->place = unused_.insert(unused_.end(), page);
    return;
  }
  if (page->indexed) drop_from_index(page);
  free_.push_back(page);
}

void KvCache::borrow(Page* page) {
  if (page->uses++ > 0) return;
  unused_.erase(page->place);
  in_use_++;
}

KvCache::Page* KvCache::find(uint64_t hash, uint64_t root, uint64_t parent, const int32_t* ids) {
  auto range = index_.equal_range(hash);
  for (auto it = range.first; it != range.second; ++it) {
    Page* page = it->second;
    if (page->root == root && page->parent == parent && memcmp(page->ids, ids, sizeof page->ids) == 0)
      return page;
  }
  return nullptr;
}

void KvCache::add_to_index(Page* page, uint64_t hash, uint64_t root, uint64_t parent, const int32_t* ids) {
  page->indexed = true;
  page->identity = next_identity_++;
  page->hash = hash;
  page->root = root;
  page->parent = parent;
  memcpy(page->ids, ids, sizeof page->ids);
  index_.emplace(hash, page);
}

void KvCache::drop_from_index(Page* page) {
  auto range = index_.equal_range(page->hash);
  for (auto it = range.first; it != range.second; ++it)
    if (it->second == page) {
      index_.erase(it);
      break;
    }
  page->indexed = false;
}

KvTable::KvTable(KvCache& cache, uint64_t root)
    : cache_(cache),
      root_(root),
      hash_(mix(root)),
      pointers_(cache.layers_ * 2),
      arrays_(cache.layers_ * 2) {}

KvTable::~KvTable() { release(); }

uint64_t KvTable::chain(uint64_t hash, const int32_t* ids) const {
  for (int64_t i = 0; i < KvCache::kBlock; i++) hash = mix(hash ^ (uint64_t)(uint32_t)ids[i]);
  return hash;
}

void KvTable::append(KvCache::Page* page) {
  pages_.push_back(page);
  for (size_t i = 0; i < pointers_.size(); i++) {
    pointers_[i].push_back(page->data + (int64_t)i * cache_.array_floats_);
    arrays_[i] = pointers_[i].data();
  }
}

int64_t KvTable::reuse(const int32_t* ids, int64_t limit) {
  int64_t covered = 0;
  while (covered + KvCache::kBlock <= limit) {
    uint64_t hash = chain(hash_, ids + covered);
    KvCache::Page* page = cache_.find(hash, root_, parent_, ids + covered);
    if (!page) break;
    cache_.borrow(page);
    append(page);
    hash_ = hash;
    parent_ = page->identity;
    indexed_++;
    covered += KvCache::kBlock;
  }
  return covered;
}

bool KvTable::grow(int64_t tokens) {
  while (pages() < KvCache::pages_for(tokens)) {
    KvCache::Page* page = cache_.allocate();
    if (!page) return false;
    append(page);
  }
  return true;
}

void KvTable::commit(const int32_t* ids, int64_t tokens) {
  for (; (indexed_ + 1) * KvCache::kBlock <= tokens; indexed_++) {
    const int32_t* own = ids + indexed_ * KvCache::kBlock;
    hash_ = chain(hash_, own);
    // Another sequence may have computed the same tokens first: its page stays the one in the index, ours
    // stays private, and the chain goes on from the indexed one.
    KvCache::Page* page = cache_.find(hash_, root_, parent_, own);
    if (!page) {
      page = pages_[(size_t)indexed_];
      cache_.add_to_index(page, hash_, root_, parent_, own);
    }
    parent_ = page->identity;
  }
}

void KvTable::release() {
  // Last page first: it becomes the least recently used, so that a page is never evicted before those that
  // build on it.
  for (size_t i = pages_.size(); i-- > 0;) cache_.release(pages_[i]);
  pages_.clear();
  for (auto& array : pointers_) array.clear();
  hash_ = mix(root_);
  parent_ = 0;
  indexed_ = 0;
}

}  // namespace openclaw
