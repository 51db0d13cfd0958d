#include "jitstep/jit/layout.h"

#include <algorithm>
#include <limits>

#include "jit/base/integers.h"

namespace jitstep::jit {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A parameter that lacks a dimension, or has a larger side, has no such matrix.
StateLayout::AuxState matrix_layout(const ResolvedAuxState& field, const Shape& shape,
                                    double initial, double largest) {
  const auto size = [&](int dim) {
    const auto d = static_cast<std::size_t>(dim);
    return d < shape.sizes.size() ? shape.sizes[d] : 0;
  };
  const std::int64_t rows = size(field.matrix->rows), columns = size(field.matrix->columns);
  const bool fits = static_cast<double>(std::max(rows, columns)) <= largest;
  return {.entries = fits ? Shape{{rows, columns}, {columns, 1}}.elements() : 0,
          .bytes = field.bytes,
          .initial = initial,
          .columns = fits && rows > 0 ? columns : 0,
          .is_matrix = true};
}

}  // namespace

StateLayout::Slot slot_layout(const Plan& plan, int slot, std::int64_t elements) {
  const Manifest* const codec = plan.codec(slot);
  if (codec == nullptr) return {};
  const std::int64_t block = plan.block(slot);
  return {(elements * codec->code_bits(plan.spec.state.dtype) + 7) / 8,
          ceil_div(elements, block) * codec->meta_bytes(), codec->code == "real"};
}

std::int64_t StateLayout::bytes() const {
  std::int64_t sum = residual;
  for (const Slot& slot : slots) sum += slot.codes + slot.meta;
  for (const AuxState& field : aux_state) sum += field.total_bytes();
  return sum;
}

bool StateLayout::same_sizes(const StateLayout& other) const {
  const auto same_slot = [](const Slot& a, const Slot& b) {
    return a.codes == b.codes && a.meta == b.meta && a.values == b.values;
  };
  const auto same_field = [](const AuxState& a, const AuxState& b) {
    return (a.is_matrix && b.is_matrix) || (a.entries == b.entries && a.bytes == b.bytes);
  };
  return residual == other.residual &&
         std::equal(slots.begin(), slots.end(), other.slots.begin(), other.slots.end(),
                    same_slot) &&
         std::equal(aux_state.begin(), aux_state.end(), other.aux_state.begin(),
                    other.aux_state.end(), same_field);
}

StateLayout state_layout(const Plan& plan, const Shape& shape,
                         const std::vector<double>& initial_aux_state) {
  StateLayout layout;
  const std::int64_t elements = shape.elements();
  for (std::size_t slot = 0; slot < plan.spec.state.slots.size(); ++slot)
    layout.slots.push_back(slot_layout(plan, static_cast<int>(slot), elements));
  const int dims = static_cast<int>(shape.sizes.size());
  std::size_t next = plan.aux_state.size();  // of the largest sides
  for (const ResolvedAuxState& field : plan.aux_state) {
    const double initial = initial_aux_state.at(static_cast<std::size_t>(field.number));
    if (field.matrix) {
      const double largest =
          next < initial_aux_state.size() ? initial_aux_state[next++] : kInfinity;
      layout.aux_state.push_back(matrix_layout(field, shape, initial, largest));
    } else {
      layout.aux_state.push_back(
          {extent(shape, field.domain.reduced(dims)).entries, field.bytes, initial});
    }
  }
  layout.residual = elements * plan.weights->residual_bytes();
  return layout;
}

std::vector<double> initial_aux_state(const Plan& plan, const OptionValues& options,
                                      std::size_t parameter) {
  std::vector<double> initial;
  for (const ResolvedAuxState& field : plan.aux_state)
    initial.push_back(options.initial(field.initial, parameter));
  for (const ResolvedAuxState& field : plan.aux_state)
    if (field.matrix)
      initial.push_back(field.matrix->has_largest
                            ? options.initial(field.matrix->largest, parameter)
                            : kInfinity);
  return initial;
}

}  // namespace jitstep::jit
