// What torch operations of ours run under, whatever the caller has switched on.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace jitstep {

/// While it lives, operations record no gradients, and no autocast changes the dtypes that they compute in.
class OwnOperations {
 private:
  at::NoGradGuard no_grad_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

}  // namespace jitstep
