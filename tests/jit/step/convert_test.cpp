#include "jit/step/convert.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/state_storage.h"
#include "support/plain_steps.h"

namespace jitstep::jit {
namespace {

constexpr std::int64_t kElements = 300;
constexpr std::int64_t kStep = 3;

// The state of one parameter of a rule.
class Stored {
 public:
  Stored(support::OwnTemplates& own, Backend& backend, const char* rule, const CodecChoice& codec)
      : backend_(backend),
        plan_(of(own, rule, codec)),
        state_(backend, plan_, std::vector<double>(plan_.aux_state.size(), 1), {kElements}),
        tensor_(state_.tensor(values_.data())) {}

  std::vector<float> decoded(int slot) {
    std::vector<float> values(kElements);
    decode_slot(backend_, {plan_, tensor_, kStep}, slot, values.data());
    return values;
  }
  void encode(int slot, const std::vector<float>& values) {
    encode_slot(backend_, {plan_, tensor_, kStep}, slot, values.data());
  }

 private:
  static Plan of(support::OwnTemplates& own, const char* rule, const CodecChoice& codec) {
    return resolve(OptionValues(rule, own.catalog), codec);
  }

  Backend& backend_;
  Plan plan_;
  StateStorage state_;
  std::vector<float> values_ = std::vector<float>(kElements);
  StepTensor tensor_;
};

std::int64_t kernels(const Engine& engine) {
  const Statistics counts = engine.statistics();
  return counts.compiled + counts.from_disk;
}

TEST(Convert, OptimizersShareTheKernelsOfASlot) {
  support::OwnTemplates own;
  CpuBackend cpu(own.engine);
  Stored(own, cpu, "adamw", {"int8"}).decoded(0);
  EXPECT_EQ(kernels(own.engine), 1);
  Stored(own, cpu, "lion", {"int8"}).decoded(0);
  Stored(own, cpu, "adan", {"int8"}).decoded(2);
  EXPECT_EQ(kernels(own.engine), 1) << "the same codec";
  Stored(own, cpu, "adamw", {"int8"}).decoded(1);
  EXPECT_EQ(kernels(own.engine), 2) << "values that are not negative have other codes";
}

TEST(Convert, NumbersOfACodecAreNotInTheKernel) {
  support::OwnTemplates own;
  CpuBackend cpu(own.engine);
  Stored(own, cpu, "adamw", {"fp8_norm", {{"least_norm", 0.5}}}).decoded(0);
  Stored(own, cpu, "adamw", {"fp8_norm", {{"least_norm", 2.0}}}).decoded(0);
  Stored(own, cpu, "adamw", {"fp8_norm", {{"least_norm", "eps"}}}).decoded(0);
  EXPECT_EQ(kernels(own.engine), 1);
}

TEST(Convert, EachSlotIsRoundedByItsOwnRandomBits) {
  support::OwnTemplates own;
  CpuBackend cpu(own.engine);
  Stored state(own, cpu, "adan", {"bf16_sr"});
  const std::vector<float> values(kElements, 1 + 1.0f / 256);  // between two values of bfloat16
  for (const int slot : {0, 2}) state.encode(slot, values);
  const std::vector<float> first = state.decoded(0), third = state.decoded(2);
  int differences = 0;
  for (std::int64_t i = 0; i < kElements; ++i) {
    EXPECT_TRUE(first[i] == 1 || first[i] == 1 + 1.0f / 128) << first[i];
    differences += first[i] != third[i] ? 1 : 0;
  }
  EXPECT_GT(differences, kElements / 4);
  state.encode(2, values);
  EXPECT_EQ(state.decoded(2), third);
}

}  // namespace
}  // namespace jitstep::jit
