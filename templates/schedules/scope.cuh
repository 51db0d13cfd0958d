// The context of a block that works on a tensor: arguments, scalars, results and auxiliary state.
#pragma once
#include "books.cuh"
#include "entry_pieces.cuh"

namespace jitstep {

template <class S>
struct Prepared {
  ScalarsOf<typename S::Gradient> gradient;
  ScalarsOf<typename S::Rule> rule;
  typename S::Rule::Memory memory;  // of the domains `tensor` and `all`, after `prepare`
};

// The values of slots before the first step.
template <class S>
struct Initial {
  real of[S::slots > 0 ? S::slots : 1];
  KHD explicit Initial(const HyperSet& set) {
    for (int slot = 0; slot < S::slots; ++slot) of[slot] = static_cast<real>(set.initial[slot]);
  }
};

template <class S>
struct Scope {
  const Args& args;
  const TensorRecord& tensor;
  const StepRecord& step;
  const HyperSet& set;
  Context<typename S::Gradient> gradient;
  Context<typename S::Rule> rule;
  typename S::Rule::Memory memory;
  int64 t = step_number(set);
  Initial<S> initial{set};
  Pieces<S> pieces{tensor};
};

// Whether a step has left something beside the parameter. Slots that options add in training begin with a step 1 of
// their own, which is not that of the weights.
template <class S>
KHD bool holds_extra(const Scope<S>& scope) {
  return scope.t > 1 || scope.tensor.extra_is_held != 0;
}

// ---- auxiliary state ---------------------------------------------------------------------------

// Calls f(MemoryField, its value in m) for the fields of a component, of one domain or (void) of all domains.
template <class S, int PartNumber, class Domain, class M, class F>
KHD void for_memory(M& m, F&& f) {
  for_list(typename S::MemoryFields{}, [&](auto row) {
    using Field = decltype(row);
    if constexpr (Field::part == PartNumber &&
                  (kSame<Domain, void> || kSame<Domain, typename Field::Domain>))
      f(Field{}, m.*Field::pointer);
  });
}

template <class S, int PartNumber, class Domain, class M>
KHD void load_old_memory(const TensorRecord& t, const HyperSet& set, int64 entry, M& m) {
  for_memory<S, PartNumber, Domain>(m, [&](auto f, auto& value) {
    value.was = decltype(f)::was(t, set)[entry];
    value.next = value.was;
  });
}

template <class S, int PartNumber, class Domain, class M>
KHD void load_new_memory(const TensorRecord& t, const HyperSet& set, int64 entry, M& m) {
  for_memory<S, PartNumber, Domain>(
      m, [&](auto f, auto& value) { value.next = decltype(f)::next(t, set)[entry]; });
}

template <class S, int PartNumber, class Domain, class M>
KHD void store_memory(const TensorRecord& t, const HyperSet& set, int64 entry, const M& m) {
  for_memory<S, PartNumber, Domain>(
      m, [&](auto f, const auto& value) { decltype(f)::next(t, set)[entry] = value.next; });
}

// The auxiliary state of a codec for one element: from the previous step or, if Fresh, from this step. Fresh state
// encodes new values, and decodes them as they will be stored.
template <class S, int I, bool Fresh>
KHD auto codec_memory(const Scope<S>& scope, int64 element) {
  typename S::template Codec<I>::Memory m{};
  for_memory<S, kFirstCodecPart + I, void>(m, [&](auto f, auto& value) {
    using Field = decltype(f);
    const int64 entry = entry_of(scope.tensor, Field::Domain::reduced(scope.tensor.dims), element);
    if constexpr (Fresh)
      value.was = value.next = Field::next(scope.tensor, scope.set)[entry];
    else
      value.was = Field::was(scope.tensor, scope.set)[entry];
  });
  return m;
}

// ---- scalars and results -----------------------------------------------------------------------

// A group's hyperparameters for the rule. The learning rate may be in device memory.
template <class S>
KHD typename S::Rule::Hyper rule_hyper(const HyperSet& set) {
  auto hyper = *reinterpret_cast<const typename S::Rule::Hyper*>(set.hyper + kCommonHyper);
  if constexpr (requires { hyper.lr; })
    if (set.lr != nullptr)
      hyper.lr = set.lr_bytes == 8 ? *static_cast<const double*>(set.lr)
                                   : static_cast<double>(*static_cast<const float*>(set.lr));
  return hyper;
}

// Computes the scalars. The rule's `prepare` reads and writes the auxiliary state in `result`.
template <class S>
KHD void prepare_set(const HyperSet& set, Prepared<S>& result) {
  using Gradient = typename S::Gradient;
  using Rule = typename S::Rule;
  NoMemory none;
  auto gradient_hyper = *reinterpret_cast<const typename Gradient::Hyper*>(set.hyper);
  if constexpr (Gradient::Body::scaled)
    if (set.grad_scale != nullptr)
      gradient_hyper.grad_scale *= static_cast<double>(*set.grad_scale);
  const int64 t = step_number(set);
  result.gradient = prepare<Gradient>(gradient_hyper, t, none);
  result.rule = prepare<Rule>(rule_hyper<S>(set), t, result.memory);
}

template <class S>
KHD Prepared<S> prepare_tensor(const TensorRecord& tensor, const HyperSet& set) {
  Prepared<S> result;
  load_old_memory<S, kRulePart, jitstep::tensor>(tensor, set, 0, result.memory);
  load_old_memory<S, kRulePart, all>(tensor, set, 0, result.memory);
  prepare_set<S>(set, result);
  return result;
}

// A reduction's result in its component's context.
template <class R, class Gradient, class Rule>
KHD auto& coefficients_in(Gradient& gradient, Rule& rule) {
  if constexpr (R::part == kGradientPart)
    return static_cast<typename R::Coefficients&>(gradient.*R::pointer);
  else
    return static_cast<typename R::Coefficients&>(rule.*R::pointer);
}

// Loads results over all tensors that are known before Pass.
template <class S, int Pass, class Gradient, class Rule>
KHD void load_shared_coefficients(const Args& args, int set, Gradient& gradient, Rule& rule) {
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::part < kFirstCodecPart && R::pass < Pass && R::everywhere)
      coefficients_in<R>(gradient, rule) = static_cast<const typename R::Coefficients*>(
          args.reductions[R::number].coefficients)[set];
  });
}

// Loads results known before Pass: uniform ones of the tensor, or the others of one element.
template <class S, int Pass, bool Uniform, class Gradient, class Rule>
KHD void load_coefficients(const Scope<S>& scope, int64 element, Gradient& gradient, Rule& rule) {
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::part < kFirstCodecPart && R::pass < Pass && R::uniform == Uniform) {
      const auto* from = static_cast<const typename R::Coefficients*>(
          scope.args.reductions[R::number].coefficients);
      int64 at = 0;
      if constexpr (R::everywhere) {
        at = scope.step.set;
      } else {
        const Space& space = scope.tensor.spaces[R::space];
        at = space.first_entry;
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
    if constexpr (R::part < kFirstCodecPart && R::pass < Pass && !R::uniform) has = true;
  });
  return has;
}

template <class S, int Pass>
KHD Scope<S> scope_of(const Args& args, int tensor, const Prepared<S>& prepared) {
  const StepRecord& step = args.steps[tensor];
  Scope<S> scope{args, args.tensors[tensor], step, args.sets[step.set], {}, {}, prepared.memory};
  static_cast<ScalarsOf<typename S::Gradient>&>(scope.gradient) = prepared.gradient;
  static_cast<ScalarsOf<typename S::Rule>&>(scope.rule) = prepared.rule;
  load_coefficients<S, Pass, true>(scope, 0, scope.gradient, scope.rule);
  return scope;
}

// One thread of a block runs `prepare` for all, and again only if the scalars may have changed.
template <class S>
class Preparation {
 public:
  KHD const Prepared<S>& of(const Args& args, int tensor) {
    const int key = S::Rule::remembers ? tensor : args.steps[tensor].set;
    if (key != key_) {
      block_barrier();
      if (thread_index() == 0)
        *shared_ = prepare_tensor<S>(args.tensors[tensor], args.sets[args.steps[tensor].set]);
      block_barrier();
      key_ = key;
    }
    return *shared_;
  }

 private:
  Prepared<S>* shared_ = shared<Prepared<S>, 0>();
  int key_ = -1;
};

}  // namespace jitstep
