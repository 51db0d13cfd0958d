// Detects tensors that share memory. Adjacent or interleaved views of one buffer share none.
#pragma once

#include <c10/util/flat_hash_map.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "optim/tensor/errors.h"

namespace jitstep {

/// A parameter and its name in messages.
struct NamedParameter {
  const torch::Tensor* tensor;
  ParameterName name;
};

/// Throws a c10::Error that names two parameters that share memory, because a step would write both at once.
/// Takes O(n log n) for n parameters. Compares single elements only if address ranges overlap. Parameters
/// without data are ignored.
void check_disjoint(const std::vector<NamedParameter>& parameters);

/// A tensor that a step reads or writes, and the parameter that it belongs to.
struct StepMemory {
  /// cleared: a gradient that the step clears. number: lr, grad_scale or found_inf, which belong to no parameter.
  enum class Use { parameter, cleared, state, number };

  const torch::Tensor* tensor;
  NamedParameter parameter;
  Use use = Use::parameter;
};

/// Throws a c10::Error if a gradient that the step clears shares memory with another of these tensors, or if two of
/// its elements share memory. Costs as much as check_disjoint.
void check_cleared(const std::vector<StepMemory>& memory);

/// True if the tensor has bytes to read or write. False if it has no elements, if its storage was freed, and for a
/// lazy zero tensor.
inline bool has_data(const torch::Tensor& t) {
  if (t.numel() == 0 || !t.has_storage()) return false;
  const c10::Storage& storage = t.unsafeGetTensorImpl()->unsafe_storage();
  return storage.nbytes() > 0 && storage.data() != nullptr;
}

/// True if an element of `a` overlaps an element of `b`.
bool share_memory(const torch::Tensor& a, const torch::Tensor& b);

/// Index of parameters by storage. It finds gradients in another parameter's memory, which a step would read while it
/// writes that parameter. It does not detect one buffer that two storages wrap.
class ParameterMemory {
 public:
  void clear() { storages_.clear(); }
  void add(const NamedParameter& parameter);
  /// Throws a c10::Error if the gradient of `own` shares memory with a parameter, unless it is `own` itself, element by
  /// element. Costs one hash lookup if no parameter uses the gradient's storage.
  void check(const torch::Tensor& gradient, const NamedParameter& own) const;
  /// The same for a number that steps read. Also throws if it has no data. It may be undefined. Messages call it `name`.
  void check_number(const torch::Tensor& number, const std::string& name) const;

 private:
  // Holds a copy of the tensor handle, because the optimizer's handle may move when parameters are added.
  struct Parameter {
    torch::Tensor tensor;
    ParameterName name;
  };
  ska::flat_hash_map<const void*, std::vector<Parameter>> storages_;
};

/// False if the two storages do not overlap. A few comparisons, without a look at the elements.
inline bool may_share_memory(const torch::Tensor& a, const torch::Tensor& b) {
  const auto end = [](const torch::Tensor& t) {
    const c10::Storage& storage = t.unsafeGetTensorImpl()->unsafe_storage();
    return static_cast<const char*>(storage.data()) + storage.nbytes();
  };
  return static_cast<const char*>(a.const_data_ptr()) < end(b) &&
         static_cast<const char*>(b.const_data_ptr()) < end(a);
}

}  // namespace jitstep
