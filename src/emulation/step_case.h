// A test case: a few steps of some tensors. step_run.h runs it on any back end.
#pragma once

#include <cstdint>
#include <vector>

#include "jitstep/jit/layout.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/spec.h"

namespace jitstep::emulation {

/// One tensor: its sizes, its layout and alignment, and the steps in which it has a gradient.
struct TensorCase {
  std::vector<std::int64_t> sizes;
  int misalignment = 0;     // elements by which p and g are shifted in their buffers
  bool transposed = false;  // the last two dimensions of p are swapped in memory
  bool grad_transposed = false;
  bool gaps = false;           // p has stride 2
  bool channels_last = false;  // dimension 1 of p and g varies fastest in memory
  int first_step = 1;          // the first step with a gradient
  int skipped_step = 0;        // a step without a gradient
};

struct StepCase {
  jit::KernelSpec spec;      // without the flags of rule and gradient, which `options` determine
  jit::NamedValues options;  // of the rule and the gradient
  std::vector<TensorCase> tensors;
  int steps = 3;
  bool special_values = false;  // whether gradients contain NaN, infinities and subnormal numbers
  std::uint64_t seed = 7;
  // Before each of these steps, an additional step is run that found_inf skips. `steps` + 1: after the last step.
  std::vector<int> refused = {};
  double grad_scale = 0;                 // on the device, also divides the gradients; 0: none
  bool clears = false;                   // whether steps set the gradients to zero
  int dims = 2;                          // number of dimensions for flags that depend on it
  std::vector<std::int64_t> sizes = {};  // sizes for flags that depend on them; empty: any
};

/// The sizes and strides of a tensor's parameter and of its gradient.
jit::Shape shape_of(const TensorCase& c);
jit::Shape gradient_shape_of(const TensorCase& c);

/// The values of the case's options. Throws an Error for invalid values.
jit::OptionValues options_of(const StepCase& c,
                             const jit::Catalog& catalog = jit::default_catalog());

/// The plan of the case's kernel.
jit::Plan kernel_of(const StepCase& c, const jit::Catalog& catalog = jit::default_catalog());

/// Sizes that detect off-by-one errors: 0, 1, and the sizes of vector, leaf and chunk, each also minus and plus one.
std::vector<TensorCase> odd_tensors();

}  // namespace jitstep::emulation
