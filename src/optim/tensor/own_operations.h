// Guards for jitstep's torch operations, which the caller's autograd and autocast settings must not affect, and what
// autograd must know of writes by kernels.
#pragma once

#include <ATen/core/Tensor.h>
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

/// As torch's in-place operations do: tells autograd that the tensor has changed.
inline void bump_version(const at::Tensor& tensor) {
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.version_counter().enabled()) impl.bump_version();  // inference tensors have no counter
}

}  // namespace jitstep
