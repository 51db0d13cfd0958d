// A few steps of some tensors, as a case that can be run on any machine: step_run.h.
#pragma once

#include <cstdint>
#include <vector>

#include "jitstep/jit/layout.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/spec.h"

namespace jitstep::emulation {

/// One tensor: its sizes, how far from dense and aligned it lies, when it gets gradients.
struct TensorCase {
  std::vector<std::int64_t> sizes;
  int misalignment = 0;     // elements by which p and g are shifted in their buffers
  bool transposed = false;  // p's last two dimensions swapped in memory
  bool grad_transposed = false;
  bool gaps = false;     // p takes every other place in memory
  int first_step = 1;    // gets its first gradient here
  int skipped_step = 0;  // gets none here
};

struct StepCase {
  jit::KernelSpec spec;      // without flags of the rule and gradient, which come from `options`
  jit::NamedValues options;  // of the rule and the common ones
  std::vector<TensorCase> tensors;
  int steps = 3;
  bool special_values = false;  // NaN, infinities and subnormal numbers among the gradients
  std::uint64_t seed = 7;
  std::vector<int> refused =
      {};                 // another step is tried before these, which found_inf skips; steps + 1:
                          // after the last
  double grad_scale = 0;  // of the device, which divides the gradients too; 0: none
  bool clears = false;    // steps leave zeros in the gradients
  int dims = 2;           // that flags which depend on the number of dimensions are taken for
};

/// The sizes and strides of a tensor's parameter and of its gradient.
jit::Shape shape_of(const TensorCase& c);
jit::Shape gradient_shape_of(const TensorCase& c);

/// The values of the case's options. An Error if they make no sense.
jit::OptionValues options_of(const StepCase& c,
                             const jit::Catalog& catalog = jit::default_catalog());

/// The case's kernel.
jit::Plan kernel_of(const StepCase& c, const jit::Catalog& catalog = jit::default_catalog());

/// Sizes that catch off-by-one errors: 0, 1, vector, leaf and chunk, each less and more one.
std::vector<TensorCase> odd_tensors();

}  // namespace jitstep::emulation
