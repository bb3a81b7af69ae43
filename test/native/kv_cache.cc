// The page pool and the prefix index: what is reused, what is not, what is evicted first, and that nothing
// leaks.
#include "native/model/kv_cache.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "test/native/check.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

constexpr int64_t B = KvCache::kBlock;

ModelConfig tiny() {
  ModelConfig c;
  c.layers = 2;
  c.kv_heads = 1;
  c.head_dim = 4;
  return c;
}

std::unique_ptr<KvCache> pool(int64_t pages) {
  return std::make_unique<KvCache>(tiny(), pages * KvCache::page_bytes(tiny()));
}

std::vector<int32_t> tokens(int64_t n, int32_t first = 0) {
  std::vector<int32_t> ids(n);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// A request that computes all its tokens and ends.
int64_t serve(KvCache& cache, uint64_t root, const std::vector<int32_t>& ids) {
  KvTable table(cache, root);
  int64_t reused = table.reuse(ids.data(), (int64_t)ids.size() - 1);
  CHECK(table.grow((int64_t)ids.size()));
  table.commit(ids.data(), (int64_t)ids.size());
  return reused;
}

void reuse_is_whole_pages_of_the_same_prefix() {
  auto cache = pool(16);
  auto ids = tokens(3 * B + 5);
  CHECK(serve(*cache, 1, ids) == 0);
  CHECK(serve(*cache, 1, ids) == 3 * B);
  auto other_end = ids;
  other_end[2 * B] = 999;
  CHECK(serve(*cache, 1, other_end) == 2 * B);
  auto other_start = ids;
  other_start[0] = 999;
  CHECK(serve(*cache, 1, other_start) == 0);
  CHECK(serve(*cache, 2, ids) == 0);
}

void the_last_token_is_always_computed() {
  auto cache = pool(16);
  auto ids = tokens(2 * B);
  serve(*cache, 1, ids);
  CHECK(serve(*cache, 1, ids) == B);
}

void a_page_that_is_not_full_is_not_shared() {
  auto cache = pool(16);
  serve(*cache, 1, tokens(B + 7));
  KvTable table(*cache, 1);
  auto ids = tokens(2 * B);
  CHECK(table.reuse(ids.data(), 2 * B) == B);
}

void shared_pages_are_counted_once_and_given_back() {
  auto cache = pool(8);
  auto ids = tokens(2 * B + 1);
  serve(*cache, 1, ids);
  CHECK(cache->available_pages() == 8);
  {
    KvTable a(*cache, 1), b(*cache, 1);
    CHECK(a.reuse(ids.data(), 2 * B) == 2 * B);
    CHECK(b.reuse(ids.data(), 2 * B) == 2 * B);
    CHECK(a.blocks()[0][0] == b.blocks()[0][0]);
    CHECK(cache->available_pages() == 6);
    CHECK(a.grow(2 * B + 1) && b.grow(2 * B + 1));
    CHECK(a.blocks()[0][2] != b.blocks()[0][2]);
    CHECK(cache->available_pages() == 4);
  }
  CHECK(cache->available_pages() == 8);
}

void arrays_do_not_overlap() {
  auto cache = pool(4);
  KvTable table(*cache, 1);
  CHECK(table.grow(2 * B));
  const int64_t floats = B * 4;
  std::vector<float*> starts;
  for (int i = 0; i < 4; i++)
    for (int page = 0; page < 2; page++) starts.push_back(table.blocks()[i][page]);
  std::sort(starts.begin(), starts.end());
  for (size_t i = 1; i < starts.size(); i++) CHECK(starts[i] - starts[i - 1] >= floats);
}

void the_least_recently_used_goes_first_and_leaves_before_their_roots() {
  auto cache = pool(5);
  auto a = tokens(3 * B + 1), b = tokens(B + 1, 5000);
  serve(*cache, 1, a);  // 3 pages kept
  serve(*cache, 1, b);  // 1 page kept
  serve(*cache, 1, a);  // a is now the most recent
  KvTable table(*cache, 1);
  CHECK(table.grow(2 * B));         // one free page, then b's
  CHECK(serve(*cache, 1, b) == 0);  // takes two pages from the end of a
  KvTable again(*cache, 1);
  CHECK(again.reuse(a.data(), 3 * B) == B);
}

void an_exhausted_pool_says_so_and_recovers() {
  auto cache = pool(3);
  auto held = std::make_unique<KvTable>(*cache, 1);
  CHECK(held->grow(3 * B));
  KvTable table(*cache, 1);
  CHECK(!table.grow(1));
  held.reset();
  CHECK(table.grow(3 * B));
  CHECK(!table.grow(3 * B + 1));
}

void pages_of_old_versions_are_not_kept() {
  auto cache = pool(8);
  auto ids = tokens(2 * B + 1);
  serve(*cache, 1, ids);
  KvTable running(*cache, 1);
  CHECK(running.reuse(ids.data(), 2 * B) == 2 * B);
  cache->keep_only(2);
  CHECK(running.pages() == 2);
  running.release();
  CHECK(serve(*cache, 1, ids) == 0);
  CHECK(serve(*cache, 1, ids) == 0);
  CHECK(serve(*cache, 2, ids) == 0);
  CHECK(serve(*cache, 2, ids) == 2 * B);
}

void a_child_of_an_evicted_page_is_not_found() {
  auto cache = pool(3);
  auto ids = tokens(2 * B + 1);
  KvTable first(*cache, 1), second(*cache, 1);
  // Two sequences compute the same first page; the second one's chain goes on from the first one's page.
  CHECK(first.grow(B) && second.grow(2 * B));
  first.commit(ids.data(), B);
  second.commit(ids.data(), 2 * B);
  first.release();
  auto noise = tokens(B, 7000);
  CHECK(first.grow(B));  // evicts the page that `second` builds on
  first.commit(noise.data(), B);
  KvTable reader(*cache, 1);
  CHECK(reader.reuse(ids.data(), 2 * B) == 0);
}

// Random traffic against a model of what the pool may hold.
void random_traffic_keeps_the_counts() {
  std::mt19937 random(7);
  auto cache = pool(12);
  std::vector<std::unique_ptr<KvTable>> tables;
  for (int round = 0; round < 20000; round++) {
    if (tables.size() < 5 && random() % 2) {
      auto ids = tokens((int64_t)(random() % 100) + 1, (int32_t)(random() % 3) * 1000);
      auto table = std::make_unique<KvTable>(*cache, 1 + random() % 2);
      table->reuse(ids.data(), (int64_t)ids.size() - 1);
      if (table->grow((int64_t)ids.size())) table->commit(ids.data(), (int64_t)ids.size());
      tables.push_back(std::move(table));
    } else if (!tables.empty()) {
      tables.erase(tables.begin() + (long)(random() % tables.size()));
    }
    if (random() % 500 == 0) cache->keep_only(1 + random() % 2);
    CHECK(cache->available_pages() >= 0 && cache->available_pages() <= 12);
    CHECK(cache->allocated_bytes() <= 12 * KvCache::page_bytes(tiny()));
  }
  tables.clear();
  CHECK(cache->available_pages() == 12);
}

}  // namespace

int main() {
  test("reuse is whole pages of the same prefix", reuse_is_whole_pages_of_the_same_prefix);
  test("the last token is always computed", the_last_token_is_always_computed);
  test("a page that is not full is not shared", a_page_that_is_not_full_is_not_shared);
  test("shared pages are counted once and given back", shared_pages_are_counted_once_and_given_back);
  test("arrays of a page do not overlap", arrays_do_not_overlap);
  test("the least recently used goes first, ends before roots",
       the_least_recently_used_goes_first_and_leaves_before_their_roots);
  test("an exhausted pool says so and recovers", an_exhausted_pool_says_so_and_recovers);
  test("pages of old versions are not kept", pages_of_old_versions_are_not_kept);
  test("a child of an evicted page is not found", a_child_of_an_evicted_page_is_not_found);
  test("random traffic keeps the counts", random_traffic_keeps_the_counts);
  test("a pool smaller than a page is refused", [] { CHECK_THROWS(E_ARGUMENT, KvCache(tiny(), 100)); });
  return summary();
}
