// Guards for jitstep's torch operations, which the caller's autograd, autocast and inference settings must not affect,
// and what autograd must know of writes by kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace jitstep {

/// While an object lives, torch operations in this thread record no gradients, and autocast and inference mode are off.
/// torch's operations could not write state from inference mode outside of it.
class OwnOperations {
 private:
  c10::InferenceMode no_inference_{false};  // first, because it turns gradients on
  at::NoGradGuard no_grad_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

/// to.copy_(from), also if the program made `to` in inference mode.
inline void overwrite(const at::Tensor& to, const at::Tensor& from, bool non_blocking = false) {
  const c10::InferenceMode any;
  to.copy_(from, non_blocking);
}

/// As torch's in-place operations do: tells autograd that the tensor has changed.
inline void bump_version(const at::Tensor& tensor) {
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.version_counter().enabled()) impl.bump_version();  // inference tensors have no counter
}

}  // namespace jitstep
