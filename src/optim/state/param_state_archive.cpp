// Reads and writes the state of one parameter. STATE_FORMAT.md has the format.
#include <limits>

#include "jit/codegen/spec_text.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/param_state.h"
#include "optim/state/archive_fields.h"
#include "optim/state/param_state_data.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

constexpr std::int64_t kSchema = 2;

void write_tensor(torch::serialize::OutputArchive& archive, const std::string& key,
                  const torch::Tensor& tensor) {
  if (tensor.defined()) archive.write(key, c10::IValue(tensor));
}

// Kernels read the tensor as bytes, so the dtype must be uint8.
torch::Tensor read_bytes(torch::serialize::InputArchive& archive, const std::string& key) {
  const torch::Tensor bytes = read_tensor(archive, key);
  TORCH_CHECK(!bytes.defined() || (bytes.scalar_type() == torch::kUInt8 && bytes.is_contiguous()),
              "jitstep: the checkpoint is damaged: \"", key,
              "\" of a parameter's state is not a contiguous uint8 tensor. Save the optimizer ",
              "again.");
  return bytes;
}

std::string aux_state_key(const std::string& key, int half) {
  return "memory_" + key + "_" + std::to_string(half);
}

// ResolvedAuxState::key of all auxiliary state that this format may have.
std::vector<std::string> aux_state_keys(const jit::Manifest& rule, const jit::Catalog& catalog,
                                        const jit::StateFormat& format) {
  std::vector<std::string> keys;
  for (const auto& field : rule.aux_state) keys.push_back(field.name);
  for (const auto& field : rule.matrices) keys.push_back(field.name);
  for (std::size_t i = 0; i < rule.slots.size(); ++i) {
    if (!format.slots.at(i)) continue;
    const jit::Manifest& codec = catalog.codec(format.slots[i]->name);
    for (const auto& field : codec.aux_state) keys.push_back(rule.slots[i].name + "." + field.name);
  }
  return keys;
}

bool is_matrix(const jit::Manifest& rule, const std::string& key) {
  return std::any_of(rule.matrices.begin(), rule.matrices.end(),
                     [&](const jit::MatrixField& field) { return field.name == key; });
}

}  // namespace

void ParamState::Data::write_formats(torch::serialize::OutputArchive& archive) const {
  archive.write("schema", c10::IValue(kSchema));
  archive.write("id", c10::IValue(std::int64_t{buffers.id}));
  archive.write("dtype", c10::IValue(jit::to_string(buffers.format.dtype)));
  archive.write("weights", c10::IValue(buffers.format.weights));
  archive.write("sizes", c10::IValue(layout.sizes));
  archive.write("strides", c10::IValue(layout.strides));
  const auto& slots = declared_slots();
  for (std::size_t i = 0; i < buffers.slots.size(); ++i) {
    if (!buffers.slots[i].codes.defined() || holds_values(i)) continue;
    archive.write("codec_" + slots[i].name, c10::IValue(jit::to_json(*buffers.format.slots[i])));
    write_tensor(archive, "codes_" + slots[i].name, buffers.slots[i].codes);
    write_tensor(archive, "meta_" + slots[i].name, buffers.slots[i].meta);
  }
  for (const auto& field : buffers.aux_state)
    for (int half = 0; half < (field.is_matrix() ? 1 : 2); ++half)
      write_tensor(archive, aux_state_key(field.key, half), field.buffers[half]);
  if (buffers.t > 0 || buffers.residual_is_set) write_tensor(archive, "extra", buffers.residual);
}

void ParamState::Data::write(torch::serialize::OutputArchive& archive) const {
  escaped.set();
  if (is_bound() && same_layout(owner.parameter) && owner.parameter.device() == layout.device)
    check_slots(buffers, owner.parameter);
  archive.write("step", c10::IValue(step()));
  const auto& slots = declared_slots();
  for (std::size_t i = 0; i < buffers.slots.size(); ++i)
    if (buffers.slots[i].codes.defined() && holds_values(i))
      write_tensor(archive, slots[i].torch_name, buffers.slots[i].codes);
  if (!has_id()) return;
  torch::serialize::OutputArchive formats(archive.compilation_unit());
  write_formats(formats);
  archive.write("jitstep", formats);
}

void ParamState::Data::read_coded_slots(torch::serialize::InputArchive& archive) {
  const auto& slots = declared_slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::string key = "codec_" + slots[i].name;
    if (c10::IValue codec; !archive.try_read(key, codec)) continue;
    buffers.format.slots[i] = as_torch_error([&] {
      return jit::complete(jit::parse_codec(read_string(archive, key)), catalog(), &manifest());
    });
    buffers.slots[i] = {read_bytes(archive, "codes_" + slots[i].name),
                        read_bytes(archive, "meta_" + slots[i].name)};
    TORCH_CHECK(buffers.slots[i].codes.defined(),
                "jitstep: the checkpoint is damaged: it has the codec of the slot ",
                slots[i].torch_name, ", but no \"codes_", slots[i].name,
                "\". Save the optimizer again.");
  }
}

void ParamState::Data::read_aux_state(torch::serialize::InputArchive& archive) {
  TORCH_CHECK(
      !read_tensor(archive, aux_state_key("0", 0)).defined(),
      "jitstep: the checkpoint has auxiliary state without names: an early version of jitstep ",
      "wrote it. Load it with that version.");
  for (const std::string& key : aux_state_keys(manifest(), catalog(), buffers.format)) {
    std::array pair = {read_tensor(archive, aux_state_key(key, 0)),
                       read_tensor(archive, aux_state_key(key, 1))};
    if (is_matrix(manifest(), key)) pair[1] = pair[0];
    TORCH_CHECK(
        pair[0].defined() == pair[1].defined(),
        "jitstep: the checkpoint is damaged: one of the two buffers of the auxiliary state ", key,
        " is missing. Save the optimizer again.");
    if (pair[0].defined()) buffers.aux_state.push_back({key, pair});
  }
}

void ParamState::Data::read_formats(torch::serialize::InputArchive& archive) {
  const std::int64_t schema = read_integer(archive, "schema");
  TORCH_CHECK(schema <= kSchema, "jitstep: the checkpoint has state of schema ", schema,
              ", but this version of jitstep reads at most ", kSchema,
              ". Update jitstep to load it.");
  const std::int64_t id = read_integer(archive, "id");
  TORCH_CHECK(id >= 0 && id <= std::numeric_limits<int>::max(),
              "jitstep: the checkpoint is damaged: it has the tensor id ", id,
              ". Save the optimizer again.");
  buffers.id = static_cast<int>(id);
  buffers.format.dtype =
      as_torch_error([&] { return jit::parse_dtype(read_string(archive, "dtype")); });
  buffers.format.weights = read_string(archive, "weights");
  layout = {read_integers(archive, "sizes"), read_integers(archive, "strides"),
            torch_dtype(buffers.format.dtype), torch::kCPU};
  read_coded_slots(archive);
  read_aux_state(archive);
  buffers.residual = read_bytes(archive, "extra");
  buffers.residual_is_set = buffers.residual.defined();
  from_archive = true;
}

void ParamState::Data::read(torch::serialize::InputArchive& archive) {
  const auto& slots = declared_slots();
  buffers.slots.resize(slots.size());
  buffers.format.slots.resize(slots.size());
  bool any = false;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto values = read_tensor(archive, slots[i].torch_name);
    if (values.defined()) set_slot_value(i, values), any = true;
  }
  // torch's SGD saves no step number. A momentum buffer means that at least one step was taken.
  c10::IValue step;
  buffers.t = archive.try_read("step", step) ? read_integer(archive, "step") : any ? 1 : 0;
  torch::serialize::InputArchive formats;
  if (archive.try_read("jitstep", formats)) read_formats(formats);
}

void ParamState::serialize(torch::serialize::OutputArchive& archive) const {
  check_intact(*this);
  data_->write(archive);
}

void ParamState::serialize(torch::serialize::InputArchive& archive) {
  Data fresh{.rule = data_->rule, .rule_catalog = data_->rule_catalog};
  fresh.read(archive);
  fresh.escaped.set();
  *data_ = std::move(fresh);
}

}  // namespace jitstep
