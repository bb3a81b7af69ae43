// Times the products of nn.h against this core's own multiply-add peak. Not part of any build; by hand:
//   g++ -std=c++20 -O3 -I. bench/native/gemm.cc <objects of native/base and native/kernels> -lpthread -o gemm
//   && ./gemm
// Prints, per shape and operation, the median GFLOP/s of one thread and of two, and the share of the peak
// measured in the same round (other load on the machine then touches both alike).
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#include "native/base/cpu.h"
#include "native/kernels/nn_simd.h"

using namespace openclaw;

namespace {

// Processor time of this thread for one thread's figures (other processes then do not count), wall time for
// two.
double now(bool own) {
  timespec t;
  clock_gettime(own ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double seconds(bool own, const std::function<void()>& body) {
  double start = now(own);
  body();
  return now(own) - start;
}

// The tile over operands that never leave the first-level cache: as close to the peak as this code can come.
double peak_gflops() {
  const GemmTable& t = *nn_table().gemm;
  static std::vector<float> a(64 * 256, 0.5f), panel(256 * 64, 0.25f), c(64 * 64);
  const int64_t repeats = 300;
  double s = seconds(true, [&] {
    for (int64_t i = 0; i < repeats; i++)
      t.block(t.rows, t.cols, 256, 1.f, a.data(), 256, panel.data(), t.cols, 0, c.data(), t.cols, false);
  });
  return 2e-9 * t.rows * t.cols * 256 * repeats / s;
}

struct Timing {
  double gflops, share;
};

// Median over rounds; each round is long enough for the clock and is paired with a run of the peak loop.
Timing measure(bool own, double flops, const std::function<void()>& body) {
  body();
  const int repeats = (int)std::max(1.0, 2e8 / flops);
  std::vector<double> rates, shares;
  for (int round = 0; round < 9; round++) {
    double peak = peak_gflops();
    double rate = 1e-9 * flops * repeats / seconds(own, [&] {
                    for (int i = 0; i < repeats; i++) body();
                  });
    rates.push_back(rate), shares.push_back(rate / peak);
  }
  std::nth_element(rates.begin(), rates.begin() + 4, rates.end());
  std::nth_element(shares.begin(), shares.begin() + 4, shares.end());
  return {rates[4], shares[4]};
}

void shape(int64_t M, int64_t K, int64_t N, Lane& one, Lane& two) {
  std::vector<float> x((size_t)(M * K), 0.1f), w((size_t)(N * K), 0.2f), y((size_t)(M * N)),
      dw((size_t)(N * K));
  std::vector<uint16_t> half((size_t)(N * K), f32_to_bf16(0.2f));
  const Matrix W{w.data(), DType::F32, N, K}, H{half.data(), DType::BF16, N, K};
  const double flops = 2.0 * (double)M * (double)N * (double)K;
  auto line = [&](const char* name, const std::function<void(Lane&)>& run) {
    Timing a = measure(true, flops, [&] { run(one); }), b = measure(false, flops, [&] { run(two); });
    printf("M=%-4lld K=%-5lld N=%-6lld %-12s %7.1f GFLOP/s (%3.0f%% of peak)   2 threads %7.1f\n",
           (long long)M, (long long)K, (long long)N, name, a.gflops, 100 * a.share, b.gflops);
    fflush(stdout);
  };
  line("linear f32", [&](Lane& l) { linear(x.data(), K, M, W, y.data(), N, false, l); });
  line("linear bf16", [&](Lane& l) { linear(x.data(), K, M, H, y.data(), N, false, l); });
  if (M <= 8) return;
  line("linear_dx", [&](Lane& l) { linear_dx(y.data(), N, M, W, x.data(), K, false, l); });
  line("linear_dw", [&](Lane& l) { linear_dw(y.data(), N, x.data(), K, M, N, K, dw.data(), l); });
}

}  // namespace

int main() {
  Lane one(1, false, nullptr), two(2, false, nullptr);
  printf("%s, peak of one core about %.1f GFLOP/s\n", isa_name(cpu_isa()), peak_gflops());
  const int64_t shapes[][3] = {{256, 576, 1536}, {256, 1536, 576}, {1, 576, 49152}, {4, 576, 49152},
                               {1, 576, 1536},   {8, 576, 1536},   {16, 576, 1536}, {32, 192, 512},
                               {1, 192, 512},    {256, 192, 512},  {512, 128, 384}};
  for (auto& s : shapes) shape(s[0], s[1], s[2], one, two);
}
