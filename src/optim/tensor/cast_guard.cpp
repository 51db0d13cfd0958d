#include "jitstep/cast_guard.h"

#include <c10/core/UndefinedTensorImpl.h>

namespace jitstep {
namespace {

// A NaN. None of its bytes is a valid bool, so that a write through a bool member is also noticed.
constexpr std::uint64_t kNan = 0x7ff8a5a5a5a5a5a5;

// The bytes of an undefined torch::Tensor: a pointer to the singleton.
std::uint64_t undefined_tensor() {
  return reinterpret_cast<std::uintptr_t>(
      static_cast<c10::TensorImpl*>(c10::UndefinedTensorImpl::singleton()));
}

}  // namespace

CastGuard::CastGuard(Finds finds) : untouched_(finds == Finds::nan ? kNan : undefined_tensor()) {
  words_.fill(untouched_);
}

}  // namespace jitstep
