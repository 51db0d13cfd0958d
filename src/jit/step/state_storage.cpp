#include "jitstep/jit/state_storage.h"

#include <algorithm>
#include <cstring>

#include "jit/step/dense_shape.h"

namespace jitstep::jit {
namespace {

std::vector<std::byte> filled(const StateLayout::AuxState& field) {
  std::vector<std::byte> content(static_cast<std::size_t>(field.entries * field.bytes));
  const float narrow = static_cast<float>(field.initial);
  const void* const value = field.bytes == 8 ? static_cast<const void*>(&field.initial) : &narrow;
  const std::int64_t stride = field.bytes * (field.is_matrix ? field.columns + 1 : 1);
  for (std::size_t at = 0; at < content.size(); at += static_cast<std::size_t>(stride))
    std::memcpy(&content[at], value, static_cast<std::size_t>(field.bytes));
  return content;
}

}  // namespace

StateStorage::StateStorage(Backend& backend, const Plan& plan, const OptionValues& options,
                           const std::vector<std::int64_t>& sizes)
    : StateStorage(backend, plan,
                   (options.validate_for(sizes.empty() ? std::vector<std::int64_t>{1} : sizes),
                    initial_aux_state(plan, options)),
                   sizes) {}

StateStorage::StateStorage(Backend& backend, const Plan& plan,
                           const std::vector<double>& initial_aux_state,
                           const std::vector<std::int64_t>& sizes)
    : shape_(dense_shape(sizes)), layout_(state_layout(plan, shape_, initial_aux_state)) {
  for (const StateLayout::Slot& slot : layout_.slots)
    slots_.push_back({add_zeros(backend, slot.codes), add_zeros(backend, slot.meta)});
  for (const StateLayout::AuxState& field : layout_.aux_state) {
    const auto content = filled(field);
    void* const first = add(backend, content);
    aux_state_.push_back({first, field.is_matrix ? first : add(backend, content)});
  }
  residual_ = add_zeros(backend, layout_.residual);
}

void* StateStorage::add(Backend& backend, const std::vector<std::byte>& content) {
  held_.push_back(backend.allocate(content.size()));
  backend.upload(held_.back().get(), content.data(), content.size());
  return held_.back().get();
}

void* StateStorage::add_zeros(Backend& backend, std::int64_t bytes) {
  return bytes == 0 ? nullptr
                    : add(backend, std::vector<std::byte>(static_cast<std::size_t>(bytes)));
}

StepTensor StateStorage::tensor(void* p, int id) const {
  return {.p = p,
          .residual = residual_,
          .slots = slots_,
          .aux_state = aux_state_,
          .shape = shape_,
          .g_strides = shape_.strides,
          .id = id,
          .layout = layout_};
}

}  // namespace jitstep::jit
