#include "native/kernels/ppo_loss.h"

namespace openclaw {

PpoReport ppo_loss(const PpoBatch& in, const Clip& clip, const PpoOut& out) {
  PpoReport report;
  for (int64_t t = 0; t < in.rows; t++) {
    PpoTerm term{0, 0, 0};
    if (!in.mask || in.mask[t] != 0) {
      term = ppo_term(in.l_cur[t], in.l_old[t], in.advantage[t], clip, report.clip);
      report.tokens++;
      report.loss += term.loss;
      report.ratio += term.ratio;
    }
    if (out.loss) out.loss[t] = (float)term.loss;
    if (out.grad) out.grad[t] = (float)term.grad;
  }
  if (report.tokens) report.loss /= (double)report.tokens, report.ratio /= (double)report.tokens;
  return report;
}

}  // namespace openclaw
