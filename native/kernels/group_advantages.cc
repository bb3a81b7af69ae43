#include "native/kernels/group_advantages.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

namespace openclaw {
namespace {

constexpr double kStdFloor = 1e-6;

// Indices of the actions that have a reward, groups together, each group in the order of the input.
std::vector<int64_t> by_group(const GroupRequest& in) {
  std::vector<int64_t> order;
  order.reserve((size_t)in.n);
  for (int64_t i = 0; i < in.n; i++)
    if (!in.present || in.present[i]) order.push_back(i);
  auto key = [&](int64_t i) { return std::make_tuple(in.group[i], in.step ? in.step[i] : 0, i); };
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return key(a) < key(b); });
  return order;
}

bool same_group(const GroupRequest& in, int64_t a, int64_t b) {
  return in.group[a] == in.group[b] && (!in.step || in.step[a] == in.step[b]);
}

struct Spread {
  double mean = 0, std = 0;
  bool equal = true;  // told from the rewards themselves: a rounded mean must not make equal rewards differ
};

Spread spread(const float* rewards, const int64_t* member, int64_t n) {
  Spread s;
  for (int64_t i = 0; i < n; i++) {
    s.mean += rewards[member[i]] / (double)n;
    s.equal = s.equal && rewards[member[i]] == rewards[member[0]];
  }
  double squares = 0;
  for (int64_t i = 0; i < n; i++) squares += (rewards[member[i]] - s.mean) * (rewards[member[i]] - s.mean);
  s.std = std::sqrt(squares / (double)n);
  return s;
}

}  // namespace

GroupReport group_advantages(const GroupRequest& in, float* advantages) {
  const std::vector<int64_t> order = by_group(in);
  GroupReport report;
  report.absent = in.n - (int64_t)order.size();
  std::fill_n(advantages, in.n, 0.f);
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && same_group(in, order[begin], order[end])) end++;
    const auto n = (int64_t)(end - begin);
    const Spread s = spread(in.rewards, &order[begin], n);
    report.groups++;
    report.singles += n == 1;
    report.equal += n > 1 && s.equal;
    if (s.equal) continue;
    const double divisor = in.normalise ? s.std + kStdFloor : 1;
    for (size_t i = begin; i < end; i++)
      advantages[order[i]] = (float)((in.rewards[order[i]] - s.mean) / divisor);
  }
  return report;
}

}  // namespace openclaw
