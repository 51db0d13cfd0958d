// Whether tensors share memory. Views that lie side by side or interleave in one buffer do not.
#pragma once

#include <c10/util/flat_hash_map.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "optim/tensor/errors.h"

namespace jitstep {

/// A parameter and what messages call it.
struct NamedParameter {
  const torch::Tensor* tensor;
  ParameterName name;
};

/// A c10::Error that names two parameters which share memory: they would be written at the same
/// time. Takes n log n for n parameters, and looks at single elements only where their ranges of
/// addresses meet. Those without memory share none.
void check_disjoint(const std::vector<NamedParameter>& parameters);

/// Memory that a step uses, and for which parameter.
struct StepMemory {
  enum class Use {
    parameter,
    cleared,
    kept,
    number
  };  // cleared: a gradient; number: of no parameter

  const torch::Tensor* tensor;
  NamedParameter parameter;
  Use use = Use::parameter;
};

/// A c10::Error for a gradient to be cleared that shares memory with any other of these, or of which two
/// elements do. Costs as much as check_disjoint.
void check_cleared(const std::vector<StepMemory>& memory);

/// Whether there is anything to read or write: false without elements, where a storage was freed
/// under its tensor, and for a tensor that only says it is zero.
inline bool has_aux_state(const torch::Tensor& t) {
  if (t.numel() == 0 || !t.has_storage()) return false;
  const c10::Storage& storage = t.unsafeGetTensorImpl()->unsafe_storage();
  return storage.nbytes() > 0 && storage.data() != nullptr;
}

/// Whether an element of one lies where an element of the other does.
bool share_memory(const torch::Tensor& a, const torch::Tensor& b);

/// Where parameters lie, to find gradients that lie there as well: they would be read while another
/// parameter's step writes them. Memory that two storages were made of is not recognised.
class ParameterMemory {
 public:
  void clear() { storages_.clear(); }
  void add(const NamedParameter& parameter);
  /// A c10::Error if the gradient of `own` shares memory with another parameter. Costs a look-up
  /// where no parameter lies in the gradient's storage.
  void check(const torch::Tensor& gradient, const NamedParameter& own) const;
  /// The same for a number that steps read, which may be undefined, and is called `name`.
  void check_number(const torch::Tensor& number, const std::string& name) const;

 private:
  // A handle of its own: the optimizer's may move in memory when parameters are added.
  struct Held {
    torch::Tensor tensor;
    ParameterName name;
  };
  ska::flat_hash_map<const void*, std::vector<Held>> storages_;
};

/// False for tensors whose memory cannot meet; costs a few comparisons.
inline bool may_share_memory(const torch::Tensor& a, const torch::Tensor& b) {
  const auto end = [](const torch::Tensor& t) {
    const c10::Storage& storage = t.unsafeGetTensorImpl()->unsafe_storage();
    return static_cast<const char*>(storage.data()) + storage.nbytes();
  };
  return static_cast<const char*>(a.const_data_ptr()) < end(b) &&
         static_cast<const char*>(b.const_data_ptr()) < end(a);
}

}  // namespace jitstep
