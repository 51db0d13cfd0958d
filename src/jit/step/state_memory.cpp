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

SlotBytes slot_bytes(const CodecChoice& codec, Dtype parameter, std::int64_t elements,
                     const Catalog& catalog) {
  const Manifest& manifest = catalog.codec(codec.name);
  const std::int64_t block = block_of(codec, catalog);
  return {(elements * manifest.code_bits(parameter) + 7) / 8,
          (elements + block - 1) / block * manifest.meta_bytes()};
}

StateMemory::StateMemory(Machine& machine, const KernelSpec& spec, const OptionValues& options,
                         const std::vector<std::int64_t>& sizes, const Catalog& catalog)
    : shape_(dense_shape(sizes)) {
  const std::int64_t n = shape_.elements();
  const auto zeros = [&](std::int64_t bytes) {
    return bytes == 0 ? nullptr : add(machine, std::vector<std::byte>(bytes));
  };
  for (const auto& codec : spec.slots) {
    const auto [codes, meta] = codec ? slot_bytes(*codec, spec.parameter, n, catalog) : SlotBytes{};
    slots_.push_back({zeros(codes), zeros(meta)});
  }
  for (const auto& field : planned_memory(spec, catalog))
    add_memory(machine, field, options.initial(field.initial));
  extra_ = zeros(n * catalog.weights(spec.weights).extra_bytes());
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
