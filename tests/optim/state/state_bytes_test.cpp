// The bytes of state: MemoryReport::state_bytes(), the tensors themselves and the figures that the formats promise.
#include "optim/state_bytes.h"

#include <set>

#include "jitstep/jit/catalog.h"

namespace jitstep::tests {
namespace {

using Kind = jit::Manifest::Kind;

Tensors matrices() {
  return make_parameters(torch::kFloat32, {{1024, 64}, {65, 65}, {1, 3}, {0, 4}});
}

// The rules with auxiliary state or state before the first step, and every sixth of the others, each in one codec by
// rotation. every_rule_long_test.cpp tests each rule in all codecs.
std::vector<std::string> sampled_rules() {
  std::vector<std::string> sample;
  std::size_t others = 0;
  for (const std::string& rule : shipped(Kind::rule)) {
    const jit::Manifest& manifest = jit::default_catalog().rule(rule);
    if (manifest.early_state || !manifest.aux_state.empty() || others++ % 6 == 0)
      sample.push_back(rule);
  }
  return sample;
}

TEST(StateBytes, OfRulesAreTheBytesOfTheirTensors) {
  const auto codecs = shipped(Kind::codec);
  std::set<std::string> met;
  for (const std::string& rule : sampled_rules()) {
    const std::string codec = codecs[met.size() % codecs.size()];
    met.insert(rule);
    SCOPED_TRACE(rule + " in " + codec);
    const Tensors parameters = matrices();
    Optimizer optimizer(rule, parameters, GenericOptions().state(codec));
    const bool early = jit::default_catalog().rule(rule).early_state;
    EXPECT_EQ(optimizer.memory_report().state_bytes() > 0, early);
    if (early) expect_bytes_of_tensors(optimizer, parameters, codec);
    train(optimizer, parameters, 1, 1);
    expect_bytes_of_tensors(optimizer, parameters, codec);
  }
  EXPECT_GE(met.size(), codecs.size()) << "every codec occurs";
}

// For AdamW, per parameter: two slots, and 4 bytes for each block of 256 or 128.
TEST(StateBytes, AreThoseThatTheDocumentationPromises) {
  const std::map<std::string, double> promised = {
      {"fp32", 8}, {"bf16", 4}, {"int8", 2.03125}, {"int4", 1.0625}};
  for (const auto& [codec, bytes] : promised) {
    const Tensors parameters = make_parameters(torch::kFloat32, {{1024, 64}});
    AdamW optimizer(parameters, AdamWOptions().state(codec));
    train(optimizer, parameters, 1, 1);
    EXPECT_EQ(static_cast<double>(optimizer.memory_report().state_bytes()) / (1024 * 64), bytes)
        << codec;
  }
}

}  // namespace
}  // namespace jitstep::tests
