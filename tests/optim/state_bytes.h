// The bytes of an optimizer's state, counted tensor by tensor.
#pragma once

#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "optim/training.h"

namespace jitstep::tests {

inline std::int64_t bytes_of(const torch::Tensor& tensor) {
  return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
}

/// Bytes of one parameter's state that users can read: codes, metadata of codecs and auxiliary state. Auxiliary state
/// is double-buffered, so it counts twice. Matrices are not. The residual of a weight format is not counted.
inline std::int64_t counted_bytes(const ParamState& state, const jit::Plan& plan) {
  std::int64_t bytes = 0;
  for (const jit::Slot& slot : plan.rule().slots)
    bytes += bytes_of(state.codes(slot.name)) + bytes_of(state.meta(slot.name));
  for (const jit::ResolvedAuxState& field : plan.aux_state)
    bytes += (field.matrix ? 1 : 2) * bytes_of(state.aux_state(field.key));
  return bytes;
}

/// Checks component by component that a parameter's tensors take the bytes of its kernel's layout.
inline void expect_bytes_of_layout(const MemoryReport::Parameter& measured,
                                   const jit::StateLayout& layout) {
  std::map<MemoryReport::Kind, std::int64_t> bytes;
  for (const auto& part : measured.entries) bytes[part.kind] += part.bytes;
  std::int64_t codes = 0, meta = 0, memory = 0;
  for (const auto& slot : layout.slots) codes += slot.codes, meta += slot.meta;
  for (const auto& field : layout.aux_state)
    memory += (field.is_matrix ? 1 : 2) * field.entries * field.bytes;
  EXPECT_EQ(bytes[MemoryReport::Kind::state], codes);
  EXPECT_EQ(bytes[MemoryReport::Kind::scales], meta);
  EXPECT_EQ(bytes[MemoryReport::Kind::aux_state], memory);
  EXPECT_EQ(bytes[MemoryReport::Kind::residual], layout.residual);
}

/// Checks that the optimizer reports the bytes of its tensors and of its kernels' layout. Options that are not given
/// here have the rule's defaults.
inline void expect_bytes_of_tensors(const Optimizer& optimizer, const Tensors& parameters,
                                    const std::string& codec) {
  const jit::OptionValues options(optimizer.rule());
  const MemoryReport report = optimizer.memory_report();
  std::int64_t all = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& p = parameters[i];
    SCOPED_TRACE(testing::Message() << p.sizes());
    const auto dtype = p.scalar_type() == torch::kFloat64    ? jit::Dtype::float64
                       : p.scalar_type() == torch::kBFloat16 ? jit::Dtype::bfloat16
                                                             : jit::Dtype::float32;
    const int dims = std::max(1, static_cast<int>(p.dim()));
    const jit::Plan plan = jit::resolve(options, {.state = jit::CodecChoice{codec}},
                                        {.dtype = dtype, .dims = dims, .elements = p.numel()});
    const auto& state =
        static_cast<const ParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
    const jit::Shape shape{p.sizes().vec(), p.strides().vec()};
    const jit::StateLayout layout =
        jit::state_layout(plan, shape, jit::initial_aux_state(plan, options));
    EXPECT_EQ(state.bytes(), counted_bytes(state, plan) + layout.residual);
    EXPECT_EQ(state.bytes(), layout.bytes());
    expect_bytes_of_layout(report.parameters.at(i), layout);
    all += state.bytes();
  }
  for (const auto& entry : report.others) all += entry.bytes;
  EXPECT_EQ(report.state_bytes(), all);
}

}  // namespace jitstep::tests
