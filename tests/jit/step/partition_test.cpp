// The parts of tensors that ranks have.
#include "jit/step/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {
namespace {

using Tensors = std::vector<PartitionedTensor>;

void add(Tensors& tensors, int count, std::int64_t elements) {
  for (int i = 0; i < count; ++i) tensors.push_back({elements});
}

// 148 parameters in their order: embeddings, 12 blocks, and the last norm.
Tensors gpt2_small() {
  Tensors tensors;
  add(tensors, 1, 50257 * 768);
  add(tensors, 1, 1024 * 768);
  for (int block = 0; block < 12; ++block) {
    add(tensors, 2, 768);
    for (const std::int64_t out : {3 * 768, 768}) add(tensors, 1, 768 * out), add(tensors, 1, out);
    add(tensors, 2, 768);
    add(tensors, 1, 768 * 3072);
    add(tensors, 1, 3072);
    add(tensors, 1, 3072 * 768);
    add(tensors, 1, 768);
  }
  add(tensors, 2, 768);
  return tensors;
}

Tensors llama_7b() {
  constexpr std::int64_t kWidth = 4096, kInner = 11008, kWords = 32000;
  Tensors tensors;
  add(tensors, 1, kWords * kWidth);
  for (int block = 0; block < 32; ++block) {
    add(tensors, 4, kWidth * kWidth);
    add(tensors, 3, kWidth * kInner);
    add(tensors, 2, kWidth);
  }
  add(tensors, 1, kWidth);
  add(tensors, 1, kWords * kWidth);
  return tensors;
}

TEST(Partition, GivesEveryElementToOneRankInTheOrderOfRanks) {
  Tensors tensors = {{0}, {1}, {4095}, {4096}, {4097}, {100000}, {7, 0}, {50000, 0}};
  for (const int ranks : {1, 2, 3, 8, 100}) {
    const Partition partition(tensors, ranks);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Part part = partition.part(rank, i);
        if (part.count() == 0) continue;
        if (tensors[i].grain > 0) {
          EXPECT_EQ(part.first, next) << ranks << " ranks, tensor " << i;
          EXPECT_EQ(part.first % kPartElements, 0);
        } else {
          EXPECT_EQ(part.count(), tensors[i].elements) << "a tensor that cannot be cut";
        }
        next = part.last;
      }
      EXPECT_EQ(next, tensors[i].elements) << ranks << " ranks, tensor " << i;
    }
  }
}

TEST(Partition, CountsTheElementsOfEachRank) {
  const Tensors tensors = {{10000}, {5000, 0}, {3}};
  const Partition partition(tensors, 3);
  for (int rank = 0; rank < 3; ++rank) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) sum += partition.part(rank, i).count();
    EXPECT_EQ(partition.elements(rank), sum);
  }
}

TEST(Partition, SharesTheModelsOfThePublishedFiguresEqually) {
  EXPECT_LE(Partition(gpt2_small(), 8).imbalance(), 1.001);
  EXPECT_LE(Partition(llama_7b(), 512).imbalance(), 1.001);
  EXPECT_EQ(gpt2_small().size(), 148u);
  EXPECT_EQ(llama_7b().size(), 291u);
}

TEST(Partition, GivesWholeTensorsToTheRankWithTheFewestElements) {
  const Partition partition({{50, 0}, {100, 0}, {60, 0}, {10, 0}}, 2);
  EXPECT_EQ(partition.part(0, 1).count(), 100);
  EXPECT_EQ(partition.part(1, 2).count(), 60);
  EXPECT_EQ(partition.part(1, 0).count(), 50);
  EXPECT_EQ(partition.part(0, 3).count(), 10);
}

TEST(Partition, FillsRanksUpAfterWholeTensors) {
  const Partition partition({{4096, 0}, {4096}}, 2);
  EXPECT_EQ(partition.part(1, 1).count(), 4096) << "rank 0 has the whole tensor";
}

TEST(Partition, RefusesNoRanksAndNegativeSizes) {
  EXPECT_THROW(Partition({{1}}, 0), Error);
  EXPECT_THROW(Partition({{-1}}, 1), Error);
}

Plan plan_of(const std::string& rule, const std::string& state = "fp32") {
  return resolve(OptionValues(rule), CodecChoice{state});
}

TEST(PartGrain, IsZeroForPlansThatNeedWholeTensors) {
  for (const char* rule : {"adamw", "lamb", "nvlamb", "prodigy", "muon"})
    EXPECT_EQ(part_grain(plan_of(rule, "int8")), kPartElements) << rule;
  EXPECT_EQ(part_grain(plan_of("adafactor")), 0);
  EXPECT_EQ(part_grain(plan_of("came")), 0);
  EXPECT_EQ(part_grain(plan_of("adamw", "int4_rank1")), 0);
  EXPECT_EQ(part_grain(plan_of("adamw", "fp8_norm")), kPartElements) << "a scale per tensor";
}

}  // namespace
}  // namespace jitstep::jit
