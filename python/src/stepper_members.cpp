// Stepper: adds parameters with their buffers and gradients.
#include <algorithm>
#include <utility>

#include "jitstep/jit/error.h"
#include "stepper.h"

namespace jitstep::python {
namespace {

std::uintptr_t bits_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

std::uintptr_t state_bits_of(const jit::StepTensor& tensor) {
  std::uintptr_t bits = bits_of(tensor.residual);
  for (const auto& slot : tensor.slots) bits |= bits_of(slot.codes);
  return bits;
}

// Throws an Error for a gradient that the kernel of the plan cannot read.
void check_gradient(const TensorView& gradient, const ParamPlan& plan) {
  if (!gradient.dtype) throw jit::Error("its gradient has an unsupported dtype.");
  if (!(gradient.device == plan.device))
    throw jit::Error("its gradient is on " + gradient.device.name() + ", and the parameter is on " +
                     plan.device.name() + ". Call zero_grad() after you move parameters.");
  if (gradient.shape().sizes != plan.shape.sizes)
    throw jit::Error(
        "its gradient has another shape. Call zero_grad() after you change parameters.");
  if (gradient.data == nullptr && plan.shape.elements() > 0)
    throw jit::Error(
        "its gradient has no memory, as some subclasses of Tensor. Use a plain torch.Tensor.");
}

}  // namespace

void Stepper::add(nb::object p, int group, const ParamPlan& plan, const Buffers& buffers,
                  const nb::object& step, const nb::object& counter, nb::handle gradient,
                  const nb::object& state) {
  const TensorView like = read(gradient);
  check_gradient(like, plan);
  Member member;
  member.sharded = p.ptr() != buffers.p.ptr();
  member.p = std::move(p);
  member.group = group;
  member.forms = shared_forms({Form(buffers.p), Form(gradient)});
  member.described = std::make_unique<Described>(
      Described{plan, plan.tensor(buffers), plan.plan->spec.state.dtype, *like.dtype});
  jit::StepTensor& tensor = member.described->tensor;
  if (tensor.p == nullptr && tensor.shape.elements() > 0)
    throw jit::Error("it has no memory, as some subclasses of Tensor. Use a plain torch.Tensor.");
  tensor.g_strides = like.shape().strides;
  if (tensor.shape.elements() > 0) {
    const jit::Elements g = jit::elements_at(like.data, tensor.shape.sizes, tensor.g_strides,
                                             static_cast<std::size_t>(like.bytes));
    member.g_bytes = g.end - g.begin;
  }
  member.data = static_cast<char*>(tensor.p);
  member.state_bits = state_bits_of(tensor);
  if (!counter.is_none()) {
    member.counter = reinterpret_cast<int64*>(read(counter).data);
    device_counts_ = true;
  } else if (!step.is_none()) {
    member.count = StepNumber(step);
  }
  watch_.add(step);
  watch_.add(counter);
  watch_buffers(member, plan, buffers, state);
  if (!member.newest.empty()) member.newest_half = static_cast<std::int8_t>(member.count.get() & 1);
  members_.push_back(std::move(member));
}

// Follows the tensors of a parameter's state, which a program may replace.
void Stepper::watch_buffers(Member& member, const ParamPlan& plan, const Buffers& buffers,
                            const nb::object& state) {
  for (const auto& [codes, scales] : buffers.slots) {
    watch_.add(codes);
    watch_.add(scales);
  }
  watch_.add(buffers.residual);
  const std::vector<AuxInfo> fields = plan.aux();
  for (std::size_t i = 0; i < buffers.aux.size(); ++i) {
    if (buffers.aux[i].is_none()) continue;  // a matrix that this parameter has not
    const nb::object first = buffers.aux[i][nb::int_(0)];
    const nb::object second = fields[i].is_matrix ? first : buffers.aux[i][nb::int_(1)];
    watch_.add(first);  // the state shows one of them
    watch_.add(second);
    member.newest.push_back({state, nb::cast(fields[i].name.c_str()), {first, second}});
  }
}

// The forms of the last parameters are the likely ones.
const Stepper::Forms* Stepper::shared_forms(Forms forms) {
  constexpr std::size_t kTried = 16;
  const std::size_t tried = std::min(kTried, forms_.size());
  for (auto known = forms_.end(); known != forms_.end() - static_cast<std::ptrdiff_t>(tried);)
    if (**--known == forms) return known->get();
  return forms_.emplace_back(std::make_unique<const Forms>(std::move(forms))).get();
}

void Stepper::add_inactive(nb::object p) {
  Member member;
  member.p = std::move(p);
  members_.push_back(std::move(member));
}

}  // namespace jitstep::python
