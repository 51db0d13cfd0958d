#include "jitstep/jit/state_memory.h"

#include <cstring>

namespace jitstep::jit {
namespace {

Shape dense_shape(const std::vector<std::int64_t>& sizes) {
  Shape shape{sizes.empty() ? std::vector<std::int64_t>{1} : sizes, {}};
  shape.strides.resize(shape.sizes.size());
  std::int64_t next = 1;
  for (std::size_t d = shape.sizes.size(); d-- > 0; next *= shape.sizes[d]) shape.strides[d] = next;
  return shape;
}

}  // namespace

SlotBytes slot_bytes(const Plan& plan, int slot, std::int64_t elements) {
  const Manifest* const codec = plan.codec(slot);
  if (codec == nullptr) return {};
  const std::int64_t block = plan.block(slot);
  return {(elements * codec->code_bits(plan.spec.parameter) + 7) / 8,
          (elements + block - 1) / block * codec->meta_bytes()};
}

StateMemory::StateMemory(Machine& machine, const Plan& plan, const OptionValues& options,
                         const std::vector<std::int64_t>& sizes)
    : shape_(dense_shape(sizes)) {
  const std::int64_t n = shape_.elements();
  const auto zeros = [&](std::int64_t bytes) {
    return bytes == 0 ? nullptr : add(machine, std::vector<std::byte>(bytes));
  };
  for (std::size_t slot = 0; slot < plan.spec.slots.size(); ++slot) {
    const auto [codes, meta] = slot_bytes(plan, static_cast<int>(slot), n);
    slots_.push_back({zeros(codes), zeros(meta)});
  }
  for (const auto& field : plan.memory) add_memory(machine, field, options.initial(field.initial));
  extra_ = zeros(n * plan.weights->extra_bytes());
}

void* StateMemory::add(Machine& machine, const std::vector<std::byte>& content) {
  held_.push_back(machine.allocate(content.size()));
  machine.upload(held_.back().get(), content.data(), content.size());
  bytes_ += static_cast<std::int64_t>(content.size());
  return held_.back().get();
}

void StateMemory::add_memory(Machine& machine, const PlannedMemory& field, double initial) {
  const int dims = static_cast<int>(shape_.sizes.size());
  const std::int64_t entries = extent(shape_, field.domain.reduced(dims)).entries;
  std::vector<std::byte> content(entries * field.bytes);
  const float narrow = static_cast<float>(initial);
  const void* const value = field.bytes == 8 ? static_cast<const void*>(&initial) : &narrow;
  for (std::int64_t i = 0; i < entries; ++i)
    std::memcpy(&content[i * field.bytes], value, field.bytes);
  memory_.push_back({add(machine, content), add(machine, content)});
}

StepTensor StateMemory::tensor(void* p, int id) const {
  return {.p = p,
          .extra = extra_,
          .slots = slots_,
          .memory = memory_,
          .shape = shape_,
          .g_strides = shape_.strides,
          .id = id};
}

}  // namespace jitstep::jit
