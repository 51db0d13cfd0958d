#include "jitstep/param_state.h"

#include <torch/torch.h>

#include <atomic>
#include <limits>
#include <utility>

#include "jitstep/checks.h"
#include "jitstep/formats.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/plan.h"
#include "jitstep/kernel_tensors.h"

namespace jitstep {
namespace {

const std::vector<jit::Slot>& slots_of(const std::string& rule) {
  return jit::default_catalog().rule(rule).slots;
}

std::string torch_name(const jit::Slot& slot) {
  return slot.torch_name.empty() ? slot.name : slot.torch_name;
}

torch::Dtype torch_dtype(jit::Dtype dtype) {
  switch (dtype) {
    case jit::Dtype::float64:
      return torch::kFloat64;
    case jit::Dtype::float32:
      return torch::kFloat32;
    case jit::Dtype::bfloat16:
      return torch::kBFloat16;
    case jit::Dtype::float16:
      return torch::kFloat16;
  }
  return torch::kFloat32;
}

bool same_geometry(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

bool same_bytes(const torch::Tensor& a, const torch::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || a.nbytes() == b.nbytes());
}

torch::Tensor on(const torch::Tensor& tensor, const torch::Device& device) {
  return tensor.defined() ? tensor.to(device) : tensor;
}

bool equal_values(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && torch::equal(a, b.to(a.options()));
}

// Never the same twice, as a new state may lie where an old one was.
int next_revision() {
  static std::atomic<int> last{0};
  return ++last;
}

}  // namespace

std::size_t ParamState::place(const std::string& slot) const {
  const auto& slots = slots_of(rule_);
  std::string known;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == slot || slots[i].torch_name == slot) return i;
    known += (i == 0 ? "" : ", ") + slots[i].name;
  }
  TORCH_CHECK(false, rule_, " has no slot \"", slot, "\"; it has ", known.empty() ? "none" : known);
}

bool ParamState::holds_values(std::size_t slot) const {
  const auto& codec = buffers_.spec.slots.at(slot);
  return codec && codec->name == "fp32";
}

torch::Tensor ParamState::slot_value(std::size_t slot) const {
  if (slot >= buffers_.slots.size()) return {};
  if (is_bound()) return decode_slot(buffers_, parameter_, static_cast<int>(slot));
  const auto& codes = buffers_.slots[slot].codes;
  TORCH_CHECK(
      !codes.defined() || holds_values(slot), "the slot ", slots_of(rule_)[slot].name,
      " is quantised and not bound to a parameter yet; read it after the optimizer took it");
  return codes;
}

void ParamState::set_slot_value(std::size_t slot, const torch::Tensor& values) {
  torch::NoGradGuard no_grad;
  buffers_.revision = next_revision();
  if (is_bound() && values.defined()) {
    TORCH_CHECK(buffers_.slots.at(slot).codes.defined(), "the slot ", slots_of(rule_)[slot].name,
                " is left out under the optimizer's options; change them first");
    encode_slot(buffers_, parameter_, static_cast<int>(slot), values);
    return;
  }
  buffers_.slots.resize(slots_of(rule_).size());
  buffers_.spec.slots.resize(buffers_.slots.size());
  buffers_.slots[slot] = {values, {}};
  buffers_.spec.slots[slot] = jit::CodecChoice{"fp32"};
}

torch::Tensor ParamState::codes(const std::string& slot) const {
  const std::size_t i = place(slot);
  return i < buffers_.slots.size() ? buffers_.slots[i].codes : torch::Tensor();
}

torch::Tensor ParamState::meta(const std::string& slot) const {
  const std::size_t i = place(slot);
  return i < buffers_.slots.size() ? buffers_.slots[i].meta : torch::Tensor();
}

void ParamState::set_id(int id) {
  buffers_.id = id;
  buffers_.revision = next_revision();
}

std::unique_ptr<torch::optim::OptimizerParamState> ParamState::clone() const {
  return std::make_unique<ParamState>(*this);
}

bool ParamState::equals(const ParamState& other) const {
  if (rule_ != other.rule_ || step() != other.step()) return false;
  for (std::size_t i = 0; i < slots_of(rule_).size(); ++i)
    if (!equal_values(slot_value(i), other.slot_value(i))) return false;
  return true;
}

// ---- binding ---------------------------------------------------------------------------------

bool ParamState::same_layout(const torch::Tensor& p) const {
  return p.sizes() == layout_.sizes && p.strides() == layout_.strides &&
         p.scalar_type() == layout_.dtype;
}

bool ParamState::fits(const torch::Tensor& p) const {
  return same_layout(p) && p.device() == layout_.device;
}

torch::Tensor ParamState::old_values(std::size_t slot, const StateBuffers& fresh,
                                     const torch::Device& device) const {
  const auto like = torch::empty_strided(layout_.sizes, layout_.strides,
                                         torch::TensorOptions(layout_.dtype).device(device));
  jit::KernelSpec spec = fresh.spec;
  spec.parameter = spec.gradient = buffers_.spec.parameter;
  spec.weights = buffers_.spec.weights;
  spec.slots.at(slot) = buffers_.spec.slots.at(slot);
  const std::vector<double> no_memory(jit::planned_memory(spec).size());
  StateBuffers old = make_state(like, spec, buffers_.id, no_memory);
  old.t = buffers_.t;
  const auto& held = buffers_.slots[slot];
  TORCH_CHECK(
      same_bytes(held.codes, old.slots[slot].codes) && same_bytes(held.meta, old.slots[slot].meta),
      "the state of the slot ", slots_of(rule_)[slot].name,
      " does not have the size its codec says; the archive is damaged");
  old.slots[slot] = {on(held.codes, device), on(held.meta, device)};
  return decode_slot(old, like, static_cast<int>(slot));
}

void ParamState::take_slot(StateBuffers& fresh, std::size_t slot, const torch::Tensor& p) const {
  const auto& held = buffers_.slots[slot];
  auto& made = fresh.slots[slot];
  if (!held.codes.defined() || !made.codes.defined()) return;
  if (holds_values(slot)) {
    if (same_geometry(held.codes, made.codes))
      made.codes = held.codes;
    else
      encode_slot(fresh, p, static_cast<int>(slot), held.codes.to(p.device()));
  } else if (buffers_.spec.slots[slot] == fresh.spec.slots[slot] && same_layout(p) &&
             same_bytes(held.codes, made.codes) && same_bytes(held.meta, made.meta)) {
    made = {on(held.codes, p.device()), on(held.meta, p.device())};
  } else {
    encode_slot(fresh, p, static_cast<int>(slot), old_values(slot, fresh, p.device()));
  }
}

void ParamState::take_rest(StateBuffers& fresh, const torch::Tensor& p) const {
  const bool same_memory = buffers_.memory.size() == fresh.memory.size();
  for (std::size_t i = 0; same_memory && i < fresh.memory.size(); ++i) {
    for (int half = 0; half < 2; ++half) {
      const auto& held = buffers_.memory[i][half];
      if (held.sizes() == fresh.memory[i][half].sizes()) fresh.memory[i][half].copy_(held);
    }
  }
  if (buffers_.spec.weights == fresh.spec.weights && same_layout(p) &&
      same_bytes(buffers_.extra, fresh.extra))
    fresh.extra = on(buffers_.extra, p.device());
}

void ParamState::check_step() const {
  const std::int64_t t = step();
  TORCH_CHECK(t >= 0 && t < std::numeric_limits<std::int64_t>::max(), "step is ", t,
              " and must be the number of steps taken, 0 or more");
  if (t > 0) return;
  for (std::size_t i = 0; i < buffers_.slots.size(); ++i) {
    const auto& codes = buffers_.slots[i].codes;
    TORCH_CHECK(!codes.defined() || !codes.any().item<bool>(), "the slot ",
                torch_name(slots_of(rule_)[i]), " holds values at step 0, where it starts from ",
                "nothing; set step() to 1 or more to go on from them, or erase the state");
  }
}

void ParamState::check_complete(const StateBuffers& fresh) const {
  const auto& slots = slots_of(rule_);
  for (std::size_t i = 0; step() > 0 && i < fresh.slots.size(); ++i) {
    const bool held = i < buffers_.slots.size() && buffers_.slots[i].codes.defined();
    TORCH_CHECK(held || !fresh.slots[i].codes.defined() || slots[i].condition,
                "the state after step ", step(), " lacks the slot ", torch_name(slots[i]),
                "; set it, or leave the whole state out to start anew");
  }
}

void ParamState::bind(const torch::Tensor& p, const jit::KernelSpec& spec, int id,
                      const std::vector<double>& initial_memory) {
  torch::NoGradGuard no_grad;
  check_step();
  const bool has_id = is_bound() || from_archive_;
  StateBuffers fresh = make_state(p, spec, has_id ? buffers_.id : id, initial_memory);
  fresh.t = buffers_.t;
  fresh.revision = next_revision();
  check_complete(fresh);
  if (!buffers_.slots.empty()) {
    TORCH_CHECK(buffers_.slots.size() == fresh.slots.size(), "state with ", buffers_.slots.size(),
                " slots for the rule ", rule_, ", which has ", fresh.slots.size());
    for (std::size_t i = 0; i < fresh.slots.size(); ++i) take_slot(fresh, i, p);
  }
  if (has_id) take_rest(fresh, p);
  buffers_ = std::move(fresh);
  layout_ = {p.sizes().vec(), p.strides().vec(), p.scalar_type(), p.device()};
  parameter_ = p;
  from_archive_ = false;
}

// ---- archives: STATE_FORMAT.md ---------------------------------------------------------------

namespace {

constexpr std::int64_t kSchema = 1;

void write_tensor(torch::serialize::OutputArchive& archive, const std::string& key,
                  const torch::Tensor& tensor) {
  if (tensor.defined()) archive.write(key, c10::IValue(tensor));
}

torch::Tensor read_tensor(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  return archive.try_read(key, value) ? value.toTensor() : torch::Tensor();
}

// What kernels will read as bytes.
torch::Tensor read_bytes(torch::serialize::InputArchive& archive, const std::string& key) {
  const torch::Tensor bytes = read_tensor(archive, key);
  TORCH_CHECK(!bytes.defined() || (bytes.scalar_type() == torch::kUInt8 && bytes.is_contiguous()),
              "\"", key, "\" of a parameter's state is not bytes; the archive is damaged");
  return bytes;
}

std::string memory_key(std::size_t i, int half) {
  return "memory_" + std::to_string(i) + "_" + std::to_string(half);
}

}  // namespace

void ParamState::write_formats(torch::serialize::OutputArchive& archive) const {
  archive.write("schema", c10::IValue(kSchema));
  archive.write("id", c10::IValue(std::int64_t{buffers_.id}));
  archive.write("dtype", c10::IValue(jit::to_string(buffers_.spec.parameter)));
  archive.write("weights", c10::IValue(buffers_.spec.weights));
  archive.write("sizes", c10::IValue(layout_.sizes));
  archive.write("strides", c10::IValue(layout_.strides));
  const auto& slots = slots_of(rule_);
  for (std::size_t i = 0; i < buffers_.slots.size(); ++i) {
    if (!buffers_.slots[i].codes.defined() || holds_values(i)) continue;
    archive.write("codec_" + slots[i].name, c10::IValue(to_json(*buffers_.spec.slots[i])));
    write_tensor(archive, "codes_" + slots[i].name, buffers_.slots[i].codes);
    write_tensor(archive, "meta_" + slots[i].name, buffers_.slots[i].meta);
  }
  for (std::size_t i = 0; i < buffers_.memory.size(); ++i)
    for (int half = 0; half < 2; ++half)
      write_tensor(archive, memory_key(i, half), buffers_.memory[i][half]);
  write_tensor(archive, "extra", buffers_.extra);
}

void ParamState::serialize(torch::serialize::OutputArchive& archive) const {
  archive.write("step", c10::IValue(buffers_.t));
  const auto& slots = slots_of(rule_);
  for (std::size_t i = 0; i < buffers_.slots.size(); ++i)
    if (buffers_.slots[i].codes.defined() && holds_values(i))
      write_tensor(archive, torch_name(slots[i]), buffers_.slots[i].codes);
  if (!is_bound()) return;
  torch::serialize::OutputArchive formats(archive.compilation_unit());
  write_formats(formats);
  archive.write("jitstep", formats);
}

void ParamState::read_formats(torch::serialize::InputArchive& archive) {
  c10::IValue value;
  const auto read = [&](const std::string& key) {
    archive.read(key, value);
    return value;
  };
  const std::int64_t schema = read("schema").toInt();
  TORCH_CHECK(schema <= kSchema, "the archive holds jitstep state of schema ", schema,
              " and this version reads up to ", kSchema, "; update jitstep to load it");
  buffers_.id = c10::checked_convert<int>(read("id").toInt(), "a tensor id");
  buffers_.spec.parameter =
      as_argument_error([&] { return jit::parse_dtype(read("dtype").toStringRef()); });
  buffers_.spec.weights = read("weights").toStringRef();
  layout_ = {read("sizes").toIntVector(), read("strides").toIntVector(),
             torch_dtype(buffers_.spec.parameter), torch::kCPU};
  const auto& slots = slots_of(rule_);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!archive.try_read("codec_" + slots[i].name, value)) continue;
    buffers_.spec.slots[i] =
        as_argument_error([&] { return jit::complete(parse_codec(value.toStringRef())); });
    buffers_.slots[i] = {read_bytes(archive, "codes_" + slots[i].name),
                         read_bytes(archive, "meta_" + slots[i].name)};
  }
  for (std::size_t i = 0;; ++i) {
    const auto half = read_tensor(archive, memory_key(i, 0));
    if (!half.defined()) break;
    buffers_.memory.push_back({half, read_tensor(archive, memory_key(i, 1))});
  }
  buffers_.extra = read_bytes(archive, "extra");
  from_archive_ = true;
}

void ParamState::serialize(torch::serialize::InputArchive& archive) {
  buffers_ = {};
  parameter_ = torch::Tensor();
  const auto& slots = slots_of(rule_);
  buffers_.slots.resize(slots.size());
  buffers_.spec.slots.resize(slots.size());
  bool any = false;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto values = read_tensor(archive, torch_name(slots[i]));
    if (values.defined()) set_slot_value(i, values), any = true;
  }
  // torch's SGD keeps no step number: with a momentum buffer, at least one step was taken.
  c10::IValue step;
  buffers_.t = archive.try_read("step", step) ? step.toInt() : any ? 1 : 0;
  torch::serialize::InputArchive formats;
  if (archive.try_read("jitstep", formats)) read_formats(formats);
}

}  // namespace jitstep
