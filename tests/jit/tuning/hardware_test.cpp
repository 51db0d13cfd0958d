#include "jit/tuning/hardware.h"

#include <gtest/gtest.h>

#include "jit/tuning/tuning_samples.h"

namespace jitstep::jit {
namespace {

using testing::abacus;

TEST(Hardware, IsComparedByItsPropertiesAndNotByItsName) {
  Hardware renamed = abacus();
  renamed.name = "Abacus 3000 Ti";
  EXPECT_TRUE(same_hardware(abacus(), renamed));
  Hardware unknown = abacus();
  unknown.bandwidth = 0;
  EXPECT_TRUE(same_hardware(abacus(), unknown));
  Hardware slow = abacus();
  slow.bandwidth = 1e10;
  EXPECT_FALSE(same_hardware(abacus(), slow));
  EXPECT_FALSE(same_hardware(abacus(4), abacus(8)));
  Hardware cache = abacus();
  cache.cache_bytes *= 2;
  EXPECT_FALSE(same_hardware(abacus(), cache));
}

TEST(Hardware, IsDetectedOnThisHost) {
  const Hardware& host = host_hardware();
  EXPECT_GE(host.units, 1);
  EXPECT_FALSE(host.architecture.empty());
  EXPECT_EQ(host.target, Target::cpu());
}

}  // namespace
}  // namespace jitstep::jit
