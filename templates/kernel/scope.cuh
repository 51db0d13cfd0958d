// The context of a block that works on a tensor: arguments, scalars, results and auxiliary state.
#pragma once
#include "locations.cuh"
#include "plan.cuh"

namespace jitstep {

template <class S>
struct Prepared {
  ScalarsOf<typename S::Gradient> gradient;
  ScalarsOf<typename S::Rule> rule;
  typename S::Rule::AuxState aux;  // of the domains `tensor` and `all`, after `prepare`
};

// The values of slots before the first step.
template <class S>
struct Initial {
  real of[S::slots > 0 ? S::slots : 1];
  KHD explicit Initial(const HyperParams& hyper_params) {
    for (int slot = 0; slot < S::slots; ++slot)
      of[slot] = static_cast<real>(hyper_params.initial[slot]);
  }
};

template <class S>
struct Scope {
  const Args& args;
  const TensorRecord& tensor;
  const StepRecord& step;
  const HyperParams& hyper_params;
  Context<typename S::Gradient> gradient;
  Context<typename S::Rule> rule;
  typename S::Rule::AuxState aux;
  int64 t = step_number(hyper_params);
  Initial<S> initial{hyper_params};
  typename S::Traversal::Spans spans{tensor};
};

// Whether an earlier step has set the parameter's residual. A tensor may be at its step 1 although its residual is
// set: slots that an option adds during training start at their own step 1.
template <class S>
KHD bool residual_is_set(const Scope<S>& scope) {
  return scope.t > 1 || scope.tensor.residual_is_set != 0;
}

// ---- auxiliary state ---------------------------------------------------------------------------

// Calls f(AuxField, its value in m) for the fields of a component, of one domain or (void) of all domains.
template <class S, int ComponentNumber, class Domain, class M, class F>
KHD void for_aux_state(M& m, F&& f) {
  for_list(typename S::AuxFields{}, [&](auto row) {
    using Field = decltype(row);
    if constexpr (Field::component == ComponentNumber &&
                  (kSame<Domain, void> || kSame<Domain, typename Field::Domain>))
      f(Field{}, m.*Field::pointer);
  });
}

template <class S, int ComponentNumber, class Domain, class M>
KHD void load_prev_aux_state(const TensorRecord& t, const HyperParams& hyper_params, int64 entry,
                             M& m) {
  for_aux_state<S, ComponentNumber, Domain>(m, [&](auto f, auto& value) {
    value.prev = decltype(f)::prev(t, hyper_params)[entry];
    value.next = value.prev;
  });
}

template <class S, int ComponentNumber, class Domain, class M>
KHD void load_next_aux_state(const TensorRecord& t, const HyperParams& hyper_params, int64 entry,
                             M& m) {
  for_aux_state<S, ComponentNumber, Domain>(
      m, [&](auto f, auto& value) { value.next = decltype(f)::next(t, hyper_params)[entry]; });
}

template <class S, int ComponentNumber, class Domain, class M>
KHD void store_aux_state(const TensorRecord& t, const HyperParams& hyper_params, int64 entry,
                         const M& m) {
  for_aux_state<S, ComponentNumber, Domain>(m, [&](auto f, const auto& value) {
    decltype(f)::next(t, hyper_params)[entry] = value.next;
  });
}

// The auxiliary state of a codec for one element, from the previous step or, if Fresh, from this step. Fresh state
// encodes new values, and decodes them as the codec stores them.
template <class S, int I, bool Fresh>
KHD auto codec_aux_state(const Scope<S>& scope, int64 element) {
  typename S::template Codec<I>::AuxState m{};
  for_aux_state<S, kFirstCodecComponent + I, void>(m, [&](auto f, auto& value) {
    using Field = decltype(f);
    int64 entry = 0;
    if constexpr (Field::Domain::reduction_layout != jitstep::tensor::reduction_layout)
      entry = entry_of(scope.tensor, Field::Domain::reduced(scope.tensor.dims), element);
    if constexpr (Fresh)
      value.prev = value.next = Field::next(scope.tensor, scope.hyper_params)[entry];
    else
      value.prev = Field::prev(scope.tensor, scope.hyper_params)[entry];
  });
  return m;
}

// ---- scalars and results -----------------------------------------------------------------------

// A group's hyperparameters for the rule. The learning rate may be in device memory.
template <class S>
KHD typename S::Rule::Hyper rule_hyper(const HyperParams& hyper_params) {
  auto hyper = *reinterpret_cast<const typename S::Rule::Hyper*>(hyper_params.hyper + kCommonHyper);
  if constexpr (requires { hyper.lr; })
    if (hyper_params.lr != nullptr)
      hyper.lr = hyper_params.lr_bytes == 8
                     ? *static_cast<const double*>(hyper_params.lr)
                     : static_cast<double>(*static_cast<const float*>(hyper_params.lr));
  return hyper;
}

KHD Sizes sizes_of(const TensorRecord& tensor) { return {tensor.whole, tensor.whole_dims}; }

// Computes the scalars. The rule's `prepare` reads and writes the auxiliary state in `result`.
template <class S>
KHD void prepare_set(const HyperParams& hyper_params, const TensorRecord& tensor,
                     Prepared<S>& result) {
  using Gradient = typename S::Gradient;
  using Rule = typename S::Rule;
  NoAuxState none;
  auto gradient_hyper = *reinterpret_cast<const typename Gradient::Hyper*>(hyper_params.hyper);
  if constexpr (Gradient::Body::scaled)
    if (hyper_params.grad_scale != nullptr)
      gradient_hyper.grad_scale *= static_cast<double>(*hyper_params.grad_scale);
  const int64 t = step_number(hyper_params);
  const Sizes sizes = sizes_of(tensor);
  result.gradient = prepare<Gradient>(gradient_hyper, t, sizes, none);
  result.rule = prepare<Rule>(rule_hyper<S>(hyper_params), t, sizes, result.aux);
}

template <class S>
KHD Prepared<S> prepare_tensor(const TensorRecord& tensor, const HyperParams& hyper_params) {
  Prepared<S> result;
  load_prev_aux_state<S, kRuleComponent, jitstep::tensor>(tensor, hyper_params, 0, result.aux);
  load_prev_aux_state<S, kRuleComponent, all>(tensor, hyper_params, 0, result.aux);
  prepare_set<S>(hyper_params, tensor, result);
  return result;
}

// A reduction's result in its component's context.
template <class R, class Gradient, class Rule>
KHD auto& coefficients_in(Gradient& gradient, Rule& rule) {
  if constexpr (R::component == kGradientComponent)
    return static_cast<typename R::Coefficients&>(gradient.*R::pointer);
  else
    return static_cast<typename R::Coefficients&>(rule.*R::pointer);
}

// Loads results over all tensors that are known before Pass.
template <class S, int Pass, class Gradient, class Rule>
KHD void load_shared_coefficients(const Args& args, int hyper_index, Gradient& gradient,
                                  Rule& rule) {
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::component < kFirstCodecComponent && R::pass < Pass && R::is_global)
      coefficients_in<R>(gradient, rule) = static_cast<const typename R::Coefficients*>(
          args.reductions[R::number].coefficients)[hyper_index];
  });
}

// Loads results known before Pass: uniform ones of the tensor, or the others of one element.
template <class S, int Pass, bool Uniform, class Gradient, class Rule>
KHD void load_coefficients(const Scope<S>& scope, int64 element, Gradient& gradient, Rule& rule) {
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::component < kFirstCodecComponent && R::pass < Pass && R::uniform == Uniform) {
      const auto* from = static_cast<const typename R::Coefficients*>(
          scope.args.reductions[R::number].coefficients);
      int64 at = 0;
      if constexpr (R::is_global) {
        at = scope.step.hyper_index;
      } else {
        const ReductionLayout& reduction_layout =
            scope.tensor.reduction_layouts[R::reduction_layout];
        at = reduction_layout.first_entry;
        if constexpr (!Uniform)
          at += entry_of(scope.tensor, R::Domain::reduced(scope.tensor.dims), element);
      }
      coefficients_in<R>(gradient, rule) = from[at];
    }
  });
}

template <class S, int Pass>
constexpr bool has_entry_coefficients() {
  bool has = false;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::component < kFirstCodecComponent && R::pass < Pass && !R::uniform) has = true;
  });
  return has;
}

template <class S, int Pass>
KHD Scope<S> scope_of(const Args& args, int tensor, const Prepared<S>& prepared) {
  const StepRecord& step = args.steps[tensor];
  Scope<S> scope{args, args.tensors[tensor], step, args.hyper_params[step.hyper_index], {},
                 {},   prepared.aux};
  static_cast<ScalarsOf<typename S::Gradient>&>(scope.gradient) = prepared.gradient;
  static_cast<ScalarsOf<typename S::Rule>&>(scope.rule) = prepared.rule;
  load_coefficients<S, Pass, true>(scope, 0, scope.gradient, scope.rule);
  return scope;
}

// One thread of a block runs `prepare` for all threads. It runs again only if the scalars may have changed.
template <class S>
class Preparation {
 public:
  KHD const Prepared<S>& of(const Args& args, int tensor) {
    const int key = kPerTensor ? tensor : args.steps[tensor].hyper_index;
    if (key != key_) {
      block_barrier();
      if (thread_index() == 0)
        *shared_ = prepare_tensor<S>(args.tensors[tensor],
                                     args.hyper_params[args.steps[tensor].hyper_index]);
      block_barrier();
      key_ = key;
    }
    return *shared_;
  }

 private:
  using Rule = typename S::Rule;
  static constexpr bool kPerTensor =
      Rule::has_aux_state ||
      PreparesFromSizes<typename Rule::Body, typename Rule::Hyper, typename Rule::AuxState>;

  Prepared<S>* shared_ = shared<Prepared<S>, 0>();
  int key_ = -1;
};

}  // namespace jitstep
