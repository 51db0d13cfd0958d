// Guards for jitstep's torch operations: the caller's autograd and autocast settings must not affect them.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace jitstep {

/// While an object lives, torch operations in this thread record no gradients and autocast is off.
class OwnOperations {
 private:
  at::NoGradGuard no_grad_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

}  // namespace jitstep
