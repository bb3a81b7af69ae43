// The serving engine over a small random model: batching, prefix reuse, versions, limits, aborts, and that
// none of it changes what is said.
#include "native/model/engine.h"

#include <atomic>
#include <future>
#include <map>
#include <numeric>

#include "test/native/check.h"

using namespace openclaw;
using namespace openclaw::testing;

namespace {

ModelConfig tiny() {
  ModelConfig c;
  c.vocab = 97;
  c.sampleable = 90;
  c.hidden = 32;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 8;
  c.ffn = 48;
  c.context = 512;
  return c;
}

std::shared_ptr<Weights> weights() {
  static std::shared_ptr<Weights> made = Weights::random(tiny(), 3, 0.3f);
  return made;
}

// B = 0.05 everywhere in the q projections: another model, plainly.
std::shared_ptr<Adapter> adapter(float strength) {
  auto a = std::make_shared<Adapter>();
  a->rank = 1;
  a->alpha = 1;
  a->layers.resize(2);
  for (auto& layer : a->layers)
    for (int target : {Target::Q, Target::Down}) {
      LoraPair& pair = layer[(size_t)target];
      pair.in = target == Target::Q ? 32 : 48;
      pair.out = 32;
      pair.a.assign((size_t)pair.in, strength);
      pair.b.assign((size_t)pair.out, strength);
    }
  return a;
}

struct Reply {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  GenerateReport report;
};

class Collector : public Receiver {
 public:
  std::function<void(size_t)> on_token;  // called with the number of tokens so far
  std::future<Reply> future() { return promise_.get_future(); }
  std::future<Scored> scored_future() { return scored_.get_future(); }
  void token(int32_t id, float logprob) override {
    reply_.ids.push_back(id);
    reply_.logprobs.push_back(logprob);
    if (on_token) on_token(reply_.ids.size());
  }
  void finished(const GenerateReport& report) override {
    reply_.report = report;
    promise_.set_value(std::move(reply_));
  }
  void scored(Scored&& scored) override { scored_.set_value(std::move(scored)); }
  void failed(std::exception_ptr error) override {
    promise_.set_exception(error);
    scored_.set_exception(error);
  }

 private:
  Reply reply_;
  std::promise<Reply> promise_;
  std::promise<Scored> scored_;
};

struct Service {
  ServeGate gate;
  Lane lane{2, false, nullptr};
  Versions versions{Snapshot{weights(), nullptr, "v0"}};
  Engine engine;

  explicit Service(EngineOptions options = {}) : engine(versions, options, gate, lane) {}

  void publish(const std::string& name, float strength) {
    versions.claim(name);
    versions.make_live(Snapshot{weights(), adapter(strength), name});
  }
  std::future<Reply> start(GenerateRequest request) {
    auto collector = std::make_shared<Collector>();
    auto future = collector->future();
    engine.generate(std::move(request), collector);
    return future;
  }
  Reply run(GenerateRequest request) { return start(std::move(request)).get(); }
  Scored score(ScoreRequest request) {
    auto collector = std::make_shared<Collector>();
    auto future = collector->scored_future();
    engine.score(std::move(request), versions.live(), collector);
    return future.get();
  }
};

EngineOptions pages(int64_t n, int64_t in_flight = 16, int64_t waiting = 256) {
  return {n * KvCache::page_bytes(tiny()), in_flight, waiting};
}

std::vector<int32_t> prompt(int64_t n, int32_t salt = 0) {
  std::vector<int32_t> ids((size_t)n);
  for (int64_t i = 0; i < n; i++) ids[(size_t)i] = (int32_t)((i * 31 + i * i * 7 + salt * 13) % 90);
  return ids;
}

GenerateRequest request(int64_t prompt_tokens, int64_t max_tokens, uint64_t seed, int32_t salt = 0,
                        float temperature = 1) {
  GenerateRequest r;
  r.ids = prompt(prompt_tokens, salt);
  r.max_tokens = max_tokens;
  r.sampling.temperature = temperature;
  r.sampling.seed = seed;
  return r;
}

void same(const Reply& a, const Reply& b) {
  CHECK(a.ids == b.ids);
  CHECK(a.logprobs.size() == b.logprobs.size());
  for (size_t i = 0; i < std::min(a.logprobs.size(), b.logprobs.size()); i++)
    CHECK_NEAR(a.logprobs[i], b.logprobs[i], 1e-4);
}

void fifty_together_equal_each_alone() {
  Service service(pages(200));
  std::vector<Reply> alone;
  for (int i = 0; i < 50; i++) alone.push_back(service.run(request(5 + i * 3, 12, (uint64_t)i, i)));
  std::vector<std::future<Reply>> together;
  for (int i = 0; i < 50; i++) together.push_back(service.start(request(5 + i * 3, 12, (uint64_t)i, i)));
  for (int i = 0; i < 50; i++) same(together[(size_t)i].get(), alone[(size_t)i]);
}

void a_cached_prefix_changes_nothing() {
  Service service(pages(64)), fresh(pages(64));
  for (int64_t n : {31, 32, 33, 64, 65, 100, 200}) {
    Reply first = service.run(request(n, 8, 1));
    Reply second = service.run(request(n, 8, 1));
    CHECK(second.report.cached_tokens == (n - 1) / 32 * 32);
    same(first, second);
    same(second, fresh.run(request(n, 8, 1)));
  }
}

void generated_tokens_are_reused_by_the_next_turn() {
  Service service(pages(64));
  Reply first = service.run(request(40, 60, 5));
  GenerateRequest next = request(40, 4, 6);
  next.ids.insert(next.ids.end(), first.ids.begin(), first.ids.end());
  next.ids.push_back(7);
  Service fresh(pages(64));
  Reply reused = service.run(next);
  CHECK(reused.report.cached_tokens == 96);  // 99 of the 100 have keys and values: three pages
  same(reused, fresh.run(next));
}

void the_recorded_logprobs_are_what_scoring_says() {
  Service service(pages(64));
  service.publish("v1", 0.2f);
  Reply reply = service.run(request(50, 40, 9));
  ScoreRequest again;
  again.ids = prompt(50);
  again.from = 50;
  again.ids.insert(again.ids.end(), reply.ids.begin(), reply.ids.end());
  Scored scored = service.score(again);
  CHECK(scored.version == "v1");
  CHECK(scored.logprobs.size() == 40);
  for (size_t i = 0; i < 40; i++) CHECK_NEAR(scored.logprobs[i], reply.logprobs[i], 1e-4);
}

void scoring_agrees_on_both_lanes_and_with_itself() {
  Service service(pages(64));
  ScoreRequest r;
  r.ids = prompt(300);
  r.from = 3;
  r.top_k = 5;
  for (int64_t i = 0; i < r.rows(); i++)
    for (int32_t id : {r.ids[(size_t)(r.from + i)], 11}) r.gather.push_back(id);
  Scored serve = service.score(r);
  Scored cached = service.score(r);
  Workspace workspace;
  Lane lane(1, false, nullptr);
  Scored train = score(r, service.versions.live(), workspace, lane);
  CHECK(serve.logprobs.size() == 297 && serve.top_ids.size() == 297 * 5 && serve.gathered.size() == 297 * 2);
  for (size_t i = 0; i < serve.logprobs.size(); i++) {
    CHECK_NEAR(serve.logprobs[i], train.logprobs[i], 1e-4);
    CHECK_NEAR(serve.logprobs[i], cached.logprobs[i], 1e-4);
    CHECK_NEAR(serve.entropy[i], train.entropy[i], 1e-4);
    CHECK_NEAR(serve.gathered[i * 2], serve.logprobs[i], 1e-6);
    CHECK(serve.top_logprobs[i * 5] >= serve.logprobs[i]);
    CHECK(serve.top_logprobs[i * 5] >= serve.top_logprobs[i * 5 + 4]);
  }
}

void a_request_keeps_its_version_to_the_last_token() {
  Service service(pages(64));
  Reply old_alone = service.run(request(20, 60, 4));
  auto collector = std::make_shared<Collector>();
  std::promise<void> begun, published;
  auto go_on = published.get_future().share();
  collector->on_token = [&](size_t n) {
    if (n != 10) return;
    begun.set_value();
    go_on.wait();
  };
  auto future = collector->future();
  service.engine.generate(request(20, 60, 4), collector);
  begun.get_future().wait();
  service.publish("v1", 0.3f);
  CHECK(service.versions.held().size() == 2);
  auto newer = service.start(request(20, 60, 4));
  published.set_value();
  Reply held = future.get(), fresh = newer.get();
  CHECK(held.report.version == "v0");
  CHECK(fresh.report.version == "v1");
  CHECK(fresh.report.cached_tokens == 0);
  same(held, old_alone);
  CHECK(fresh.ids != held.ids);
  Service only_new(pages(64));
  only_new.publish("w1", 0.3f);
  same(fresh, only_new.run(request(20, 60, 4)));
}

void a_prefix_is_not_reused_across_versions() {
  Service service(pages(64));
  service.run(request(100, 2, 1));
  CHECK(service.run(request(100, 2, 1)).report.cached_tokens == 96);
  service.publish("v1", 0.3f);
  CHECK(service.run(request(100, 2, 1)).report.cached_tokens == 0);
  CHECK(service.run(request(100, 2, 1)).report.cached_tokens == 96);
}

void names_are_never_reused() {
  Service service(pages(8));
  service.publish("v1", 0.1f);
  CHECK_THROWS(E_ARGUMENT, service.publish("v1", 0.2f));
  CHECK_THROWS(E_ARGUMENT, service.publish("v0", 0.2f));
  CHECK_THROWS(E_ARGUMENT, service.publish("live", 0.2f));
  CHECK_THROWS(E_ARGUMENT, service.publish("base", 0.2f));
  CHECK_THROWS(E_ARGUMENT, service.publish("", 0.2f));
  service.publish("v2", 0.2f);
  CHECK_THROWS(E_ARGUMENT, service.versions.find("v1"));  // nobody holds it any more
  CHECK(service.versions.find("v2") == service.versions.live());
  CHECK(service.versions.find("v0") == service.versions.base());
}

void a_short_pool_delays_but_changes_nothing() {
  Service roomy(pages(200)), short_of(pages(9));
  std::vector<std::future<Reply>> tight;
  for (int i = 0; i < 12; i++) tight.push_back(short_of.start(request(30 + i * 5, 90, (uint64_t)i, i)));
  for (int i = 0; i < 12; i++) {
    Reply reply = tight[(size_t)i].get();
    CHECK(reply.ids.size() == 90);
    same(reply, roomy.run(request(30 + i * 5, 90, (uint64_t)i, i)));
  }
}

void the_pool_and_the_context_end_a_reply() {
  Service service(pages(3));
  Reply reply = service.run(request(40, 1000, 1));
  CHECK(reply.report.finish == Finish::Length);
  CHECK(reply.ids.size() == 96 - 40);
  CHECK_THROWS(E_CONTEXT, service.run(request(96, 1, 1)));
  Service roomy(pages(100));
  CHECK(roomy.run(request(500, 1000, 1)).ids.size() == 12);
  CHECK_THROWS(E_CONTEXT, roomy.run(request(512, 1, 1)));
}

void a_stop_id_ends_the_reply_and_is_part_of_it() {
  Service service(pages(32));
  Reply reply = service.run(request(10, 30, 2));
  GenerateRequest r = request(10, 30, 2);
  r.stop_ids = {reply.ids[7], 1000 % 97};
  Reply stopped = service.run(r);
  size_t first =
      (size_t)(std::find_if(reply.ids.begin(), reply.ids.end(),
                            [&](int32_t id) { return id == r.stop_ids[0] || id == r.stop_ids[1]; }) -
               reply.ids.begin());
  CHECK(stopped.report.finish == Finish::Stop);
  CHECK(stopped.ids.size() == first + 1);
  CHECK(service.run(request(10, 30, 2)).report.finish == Finish::Length);
}

void abort_and_deadline_end_early_with_what_there_is() {
  Service service(pages(32));
  auto collector = std::make_shared<Collector>();
  std::promise<std::shared_ptr<Engine::Ticket>> ticket;
  auto shared = ticket.get_future().share();
  collector->on_token = [&](size_t n) {
    if (n == 5) shared.get()->abort();
  };
  auto future = collector->future();
  ticket.set_value(service.engine.generate(request(10, 400, 1), collector));
  Reply reply = future.get();
  CHECK(reply.report.finish == Finish::Abort);
  CHECK(reply.ids.size() == 5);

  GenerateRequest late = request(10, 450, 1);
  late.deadline_ms = 1;
  auto slow = std::make_shared<Collector>();
  slow->on_token = [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  auto slow_future = slow->future();
  service.engine.generate(late, slow);
  reply = slow_future.get();
  CHECK(reply.report.finish == Finish::Deadline);
  CHECK(reply.ids.size() < 450);
}

void the_queue_is_bounded_and_empties() {
  Service service(pages(64, 2, 3));
  auto collector = std::make_shared<Collector>();
  std::promise<void> release, reached;
  auto wait = release.get_future().share();
  collector->on_token = [&](size_t n) {
    if (n == 1) reached.set_value();
    wait.wait();
  };
  auto first = collector->future();
  service.engine.generate(request(5, 3, 0), collector);
  reached.get_future().wait();
  std::vector<std::future<Reply>> others;
  for (int i = 0; i < 4; i++) others.push_back(service.start(request(5, 3, (uint64_t)i)));
  CHECK_THROWS(E_BUSY, service.start(request(5, 3, 9)));
  CHECK(service.gate.in_flight() == 5);
  release.set_value();
  first.get();
  for (auto& other : others) CHECK(other.get().ids.size() == 3);
  CHECK(service.gate.in_flight() == 0);
  CHECK(service.engine.stats().in_flight == 0 && service.engine.stats().waiting == 0);
  service.run(request(5, 3, 9));
}

void closing_aborts_everything_and_refuses_the_rest() {
  auto service = std::make_unique<Service>(pages(64, 2));
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 20; i++) replies.push_back(service->start(request(20, 450, (uint64_t)i, i)));
  auto collector = std::make_shared<Collector>();
  auto scored = collector->scored_future();
  ScoreRequest r;
  r.ids = prompt(100);
  service->engine.score(r, service->versions.live(), collector);
  service->engine.close();
  for (auto& reply : replies) CHECK(reply.get().report.finish == Finish::Abort);
  CHECK_THROWS(E_ABORTED, scored.get());
  CHECK_THROWS(E_DISPOSED, service->start(request(5, 1, 0)));
  service->engine.close();
  CHECK(service->gate.in_flight() == 0);
}

void bad_requests_are_refused_at_the_door() {
  Service service(pages(8));
  auto with = [](auto change) {
    GenerateRequest r = request(5, 5, 1);
    change(r);
    return r;
  };
  CHECK_THROWS(E_ARGUMENT, service.run(with([](auto& r) { r.ids.clear(); })));
  CHECK_THROWS(E_TOKEN_ID, service.run(with([](auto& r) { r.ids[2] = -1; })));
  CHECK_THROWS(E_TOKEN_ID, service.run(with([](auto& r) { r.ids[2] = 97; })));
  CHECK_THROWS(E_TOKEN_ID, service.run(with([](auto& r) { r.stop_ids = {97}; })));
  CHECK_THROWS(E_ARGUMENT, service.run(with([](auto& r) { r.max_tokens = 0; })));
  CHECK_THROWS(E_ARGUMENT, service.run(with([](auto& r) { r.sampling.top_p = 0; })));
  auto score_with = [](auto change) {
    ScoreRequest r;
    r.ids = prompt(10);
    change(r);
    return r;
  };
  CHECK_THROWS(E_ARGUMENT, service.score(score_with([](auto& r) { r.from = 0; })));
  CHECK_THROWS(E_ARGUMENT, service.score(score_with([](auto& r) { r.from = 10; })));
  CHECK_THROWS(E_ARGUMENT, service.score(score_with([](auto& r) { r.top_k = 98; })));
  CHECK_THROWS(E_SHAPE, service.score(score_with([](auto& r) { r.gather = {1, 2}; })));
  CHECK_THROWS(E_TOKEN_ID, service.score(score_with([](auto& r) { r.gather.assign(9, 97); })));
  CHECK_THROWS(E_CONTEXT, service.score(score_with([](auto& r) { r.ids = prompt(513); })));
  CHECK_THROWS(E_ARGUMENT, Service(pages(8, 0)));
}

void requests_at_once_read_a_common_beginning_once() {
  Service service(pages(200));
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 8; i++) {
    GenerateRequest r = request(400, 4, (uint64_t)i);
    r.ids.push_back(i);
    replies.push_back(service.start(r));
  }
  for (auto& reply : replies) reply.get();
  EngineStats stats = service.engine.stats();
  CHECK(stats.prompt_tokens == 8 * 401);
  CHECK(stats.cached_tokens == 7 * 384);
}

void a_short_prompt_does_not_wait_for_a_long_one() {
  Service service(pages(200));
  std::atomic<int> order{0};
  int long_at = 0, short_at = 0;
  auto reader = std::make_shared<Collector>(), quick = std::make_shared<Collector>(),
       holder = std::make_shared<Collector>();
  reader->on_token = [&](size_t) { long_at = order++; };
  quick->on_token = [&](size_t) { short_at = order++; };
  std::promise<void> begun, release;
  auto wait = release.get_future().share();
  holder->on_token = [&](size_t n) {
    if (n == 1) begun.set_value();
    wait.wait();
  };
  auto a = holder->future(), b = reader->future(), c = quick->future();
  service.engine.generate(request(5, 2, 1, 1), holder);
  begun.get_future().wait();
  service.engine.generate(request(500, 1, 1, 2), reader);
  service.engine.generate(request(10, 1, 1, 3), quick);
  release.set_value();
  a.get(), b.get(), c.get();
  CHECK(short_at < long_at);
}

void padding_rows_are_never_sampled() {
  Service service(pages(64));
  for (uint64_t seed = 0; seed < 10; seed++)
    for (int32_t id : service.run(request(5, 200, seed, 0, 5)).ids) CHECK(id < 90);
}

}  // namespace

int main() {
  test("fifty together equal each alone", fifty_together_equal_each_alone);
  test("a cached prefix changes nothing", a_cached_prefix_changes_nothing);
  test("generated tokens are reused by the next turn", generated_tokens_are_reused_by_the_next_turn);
  test("the recorded log-probs are what scoring says", the_recorded_logprobs_are_what_scoring_says);
  test("scoring agrees on both lanes and with itself", scoring_agrees_on_both_lanes_and_with_itself);
  test("a request keeps its version to the last token", a_request_keeps_its_version_to_the_last_token);
  test("a prefix is not reused across versions", a_prefix_is_not_reused_across_versions);
  test("names are never reused", names_are_never_reused);
  test("a short pool delays but changes nothing", a_short_pool_delays_but_changes_nothing);
  test("the pool and the context end a reply", the_pool_and_the_context_end_a_reply);
  test("a stop id ends the reply and is part of it", a_stop_id_ends_the_reply_and_is_part_of_it);
  test("abort and deadline end early with what there is", abort_and_deadline_end_early_with_what_there_is);
  test("the queue is bounded and empties", the_queue_is_bounded_and_empties);
  test("closing aborts everything and refuses the rest", closing_aborts_everything_and_refuses_the_rest);
  test("bad requests are refused at the door", bad_requests_are_refused_at_the_door);
  test("requests at once read a common beginning once", requests_at_once_read_a_common_beginning_once);
  test("a short prompt does not wait for a long one", a_short_prompt_does_not_wait_for_a_long_one);
  test("padding rows are never sampled", padding_rows_are_never_sampled);
  return summary();
}
