// The angles of the rotary embedding, as transformers computes them (modeling_rope_utils.py), in double.
#pragma once
#include <vector>

#include "native/model/config.h"

namespace openclaw {

// Angle per position of each of the E/2 pairs (i, i + E/2): theta^(-2i/E), changed by the scaling.
std::vector<double> rope_frequencies(const ModelConfig& config);

// [positions][E/2][2]: cosine and sine, as rope() of nn.h reads them.
std::vector<float> rope_table(const ModelConfig& config, int64_t positions);

// What attention scores are multiplied by: 1/sqrt(E). YaRN multiplies queries and keys by its attention
// factor f (the tables here do not), so scores get f^2 as well.
double rope_attention_scale(const ModelConfig& config);

}  // namespace openclaw
