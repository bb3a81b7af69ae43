// Keys and values of the sequences being served: a bounded pool of pages, with reuse of common prefixes.
//
// A page holds the keys and values of `block` consecutive tokens for every layer: 2 L arrays of G * block * E
// floats, laid out as attention() reads them (nn.h). A full page is entered in an index under the chained
// hash of (version, its ids and all ids before); a later sequence that starts with the same ids under the
// same version borrows it instead of computing it again. A hit is believed only after the ids themselves and
// the identity of the page before were compared. A page that is not full is never shared: its owner still
// writes to it, so a borrower computes those tokens again.
//
// Pages in use are counted; a page nobody uses stays in the index until room is needed and the least recently
// used goes. Belongs to one thread (the serve thread); only the counters in `usage()` may be read by others.
#pragma once
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "native/model/config.h"

namespace openclaw {

class KvTable;

class KvCache {
 public:
  static constexpr int64_t kBlock = 32;  // tokens of a page

  // limit_bytes bounds the pages' memory; throws E_ARGUMENT when not even one page fits.
  KvCache(const ModelConfig& config, int64_t limit_bytes);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  static int64_t page_bytes(const ModelConfig& config);
  static int64_t pages_for(int64_t tokens) { return (tokens + kBlock - 1) / kBlock; }
  int64_t capacity_pages() const { return capacity_; }
  int64_t capacity_tokens() const { return capacity_ * kBlock; }
  // Pages an allocation can still get: never allocated, given back, or kept only for reuse.
  int64_t available_pages() const { return capacity_ - in_use_; }

  // Pages of versions other than `root` are not kept for reuse once unused: no later request starts under an
  // old version.
  void keep_only(uint64_t root);

  int64_t allocated_bytes() const { return allocated_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class KvTable;
  struct Page;
  using PageList = std::list<Page*>;

  Page* allocate();  // null when every page is in use
  void release(Page* page);
  Page* find(uint64_t hash, uint64_t root, uint64_t parent, const int32_t* ids);
  void add_to_index(Page* page, uint64_t hash, uint64_t root, uint64_t parent, const int32_t* ids);
  void drop_from_index(Page* page);
  void borrow(Page* page);

  const int64_t layers_, array_floats_, page_floats_, capacity_;
  uint64_t kept_root_ = 0;
  bool keep_all_ = true;
  uint64_t next_identity_ = 1;
  int64_t in_use_ = 0;
  std::atomic<int64_t> allocated_bytes_{0};
  std::vector<std::unique_ptr<Page>> pages_;
  std::vector<Page*> free_;
  PageList unused_;  // indexed pages nobody uses, least recently used first
  std::unordered_multimap<uint64_t, Page*> index_;
};

// The pages of one sequence, in order. Gives them back when destroyed.
class KvTable {
 public:
  // root: what stands for the version in the index; the same number exactly for the same weights and adapter.
  KvTable(KvCache& cache, uint64_t root);
  ~KvTable();
  KvTable(const KvTable&) = delete;
  KvTable& operator=(const KvTable&) = delete;

  // Borrows indexed pages for the longest prefix of ids[0..limit); call once, on an empty table. Returns the
  // tokens covered, a multiple of the page size, <= limit.
  int64_t reuse(const int32_t* ids, int64_t limit);
  // Makes sure that positions 0..tokens-1 have pages. False when the pool is exhausted; pages had so far are
  // kept.
  bool grow(int64_t tokens);
  // Positions 0..tokens-1 now hold the keys and values of ids[0..tokens): pages that became full enter the
  // index.
  void commit(const int32_t* ids, int64_t tokens);
  void release();

  int64_t pages() const { return (int64_t)pages_.size(); }
  // [layers * 2] arrays of block pointers, keys of layer l at [l*2], values at [l*2+1]: Chunk::blocks of
  // forward.h.
  float* const* const* blocks() const { return arrays_.data(); }

 private:
  void append(KvCache::Page* page);
  uint64_t chain(uint64_t hash, const int32_t* ids) const;

  KvCache& cache_;
  const uint64_t root_;
  uint64_t hash_, parent_ = 0;  // chained hash, and identity of the last page that is in the index
  int64_t indexed_ = 0;         // pages walked by the chain so far
  std::vector<KvCache::Page*> pages_;
  std::vector<std::vector<float*>> pointers_;  // [layers * 2][pages]
  std::vector<float* const*> arrays_;
};

}  // namespace openclaw
