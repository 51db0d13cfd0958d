#include "emulation/tensor_data.h"

#include "jitstep/jit/layout.h"

namespace jitstep::emulation {
namespace {

using jit::bytes_of;
using jit::Dtype;

void add_aux_state(jit::Backend& backend, TensorData& data,
                   const jit::StateLayout::AuxState& field) {
  // Only host transforms use matrices, which may be larger than all other state.
  const std::int64_t bytes = field.is_matrix ? 0 : field.entries * field.bytes;
  std::array<GuardedBuffer, 2> pair{GuardedBuffer(backend, static_cast<std::size_t>(bytes)),
                                    GuardedBuffer(backend, static_cast<std::size_t>(bytes))};
  for (auto& buffer : pair)
    for (std::int64_t at = 0; at < bytes; at += field.bytes)
      put(buffer.host() + at, field.bytes == 8 ? Dtype::float64 : Dtype::float32, field.initial);
  data.aux_state.push_back(std::move(pair));
}

// Uploads all buffers but the inputs. Each step uploads these and the gradient.
void bind(jit::Backend& backend, TensorData& data) {
  const auto on_device = [&](const GuardedBuffer& buffer) {
    buffer.send(backend);
    return buffer.device();
  };
  data.g.send(backend);
  data.tensor.p = on_device(data.p);
  data.tensor.residual = on_device(data.residual);
  for (std::size_t i = 0; i < data.codes.size(); ++i)
    data.tensor.slots.push_back({on_device(data.codes[i]), on_device(data.meta[i])});
  for (auto& pair : data.aux_state)
    data.tensor.aux_state.push_back({on_device(pair[0]), on_device(pair[1])});
}

void fill_parameter(TensorData& data, Dtype dtype, bool gaps, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, 0.5);
  const int w = bytes_of(dtype);
  for (std::int64_t i = 0; i < data.n; ++i) {
    const std::int64_t at = gaps ? 2 * i : i;
    put(data.p.host() + at * w, dtype, normal(random));
  }
}

}  // namespace

TensorData make_tensor(jit::Backend& backend, const jit::Plan& plan,
                       const jit::OptionValues& options, const TensorCase& c, int id,
                       std::mt19937_64& random) {
  const jit::Shape shape = shape_of(c);
  const auto n = static_cast<std::size_t>(shape.elements());
  const auto wp = static_cast<std::size_t>(bytes_of(plan.spec.state.dtype)),
             wg = static_cast<std::size_t>(bytes_of(plan.spec.gradient)),
             shift = static_cast<std::size_t>(c.misalignment);
  const jit::StateLayout layout =
      jit::state_layout(plan, shape, jit::initial_aux_state(plan, options));
  const auto buffer = [&](std::int64_t bytes) {
    return GuardedBuffer(backend, static_cast<std::size_t>(bytes));
  };
  TensorData data{.p = GuardedBuffer(backend, n * wp * (c.gaps ? 2 : 1), shift * wp),
                  .g = GuardedBuffer(backend, n * wg, shift * wg),
                  .residual = buffer(layout.residual)};
  data.n = static_cast<std::int64_t>(n);
  data.tensor.shape = shape;
  data.tensor.g_strides = gradient_shape_of(c).strides;
  data.tensor.id = id;
  for (const auto& slot : layout.slots) {
    data.codes.push_back(buffer(slot.codes));
    data.meta.push_back(buffer(slot.meta));
  }
  for (const auto& field : layout.aux_state) add_aux_state(backend, data, field);
  if (id % 2 == 0)
    for (std::size_t i = 0; i < plan.rule().inputs.size(); ++i)
      data.inputs.push_back(buffer(data.n * jit::real_bytes(plan.spec.state.dtype)));
  fill_parameter(data, plan.spec.state.dtype, c.gaps, random);
  bind(backend, data);
  return data;
}

}  // namespace jitstep::emulation
