#include "emulation/step_case.h"

#include <algorithm>

#include "emulation/option_covering_set.h"

namespace jitstep::emulation {
namespace {

std::vector<std::int64_t> strides_of(const TensorCase& c, bool transposed, bool gaps) {
  const int dims = static_cast<int>(c.sizes.size());
  std::vector<int> order(dims);
  for (int d = 0; d < dims; ++d) order[d] = dims - 1 - d;
  if (transposed && dims > 1) std::swap(order[0], order[1]);
  if (c.channels_last && dims > 2) std::rotate(order.begin(), order.end() - 2, order.end() - 1);
  std::vector<std::int64_t> strides(dims);
  std::int64_t next = gaps ? 2 : 1;
  for (int d : order) {
    strides[d] = next;
    next *= std::max<std::int64_t>(c.sizes[d], 1);
  }
  return strides;
}

jit::Shape shape(const TensorCase& c, bool transposed, bool gaps) {
  if (c.sizes.empty()) return {{1}, {1}};
  return {c.sizes, strides_of(c, transposed, gaps)};
}

bool is_strided(const TensorCase& c) {
  const auto compact = jit::compact_strides(shape_of(c));
  return !jit::is_dense(shape_of(c), compact) || !jit::is_dense(gradient_shape_of(c), compact);
}

}  // namespace

jit::Shape shape_of(const TensorCase& c) { return shape(c, c.transposed, c.gaps); }

jit::Shape gradient_shape_of(const TensorCase& c) { return shape(c, c.grad_transposed, false); }

jit::OptionValues options_of(const StepCase& c, const jit::Catalog& catalog) {
  jit::OptionValues options(c.spec.rule, catalog);
  for (const auto& [name, value] : c.options) options.set(name, value);
  options.validate();
  options.construct();
  return options;
}

jit::Plan kernel_of(const StepCase& c, const jit::Catalog& catalog) {
  const jit::OptionValues options = options_of(c, catalog);
  jit::KernelSpec spec = c.spec;
  spec.flags = flags_of(options, {.dims = c.dims, .sizes = c.sizes});
  spec.gradient_flags = options.gradient_flags();
  if (c.grad_scale != 0) spec.gradient_flags["scaled"] = true;
  for (std::size_t i = 0; i < spec.state.slots.size(); ++i)
    if (!jit::is_stored(catalog.rule(spec.rule).slots[i], spec.flags)) spec.state.slots[i].reset();
  spec.strided = std::any_of(c.tensors.begin(), c.tensors.end(), is_strided);
  return jit::resolve(spec, catalog);
}

std::vector<TensorCase> odd_tensors() {
  std::vector<TensorCase> tensors;
  for (std::int64_t n : {0, 1, 3, 4, 31, 127, 128, 129, 255, 256, 257, 4095, 4096, 4097})
    tensors.push_back({.sizes = {n}});
  tensors.push_back({.sizes = {}});
  tensors.push_back({.sizes = {1000}, .misalignment = 1});
  tensors.push_back({.sizes = {7, 131}});
  tensors.push_back({.sizes = {3, 5, 41}, .first_step = 2});
  return tensors;
}

}  // namespace jitstep::emulation
