#include "emulation/emulated_backend.h"

#include <gtest/gtest.h>

#include <new>

namespace jitstep::emulation {
namespace {

TEST(EmulatedBackend, ThrowsIfMemoryIsShort) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process for such a size";
#endif
  EmulatedBackend backend(jit::default_engine(), 1, BlockOrder::kForward, LaneOrder::kForward);
  EXPECT_THROW(backend.allocate(std::size_t{1} << 60), std::bad_alloc);
}

}  // namespace
}  // namespace jitstep::emulation
