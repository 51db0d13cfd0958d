// Second half of a pass. One team per entry adds the partial sums and calls `finalize`.
#pragma once
#include "scope.cuh"
#include "team.cuh"

namespace jitstep {

// Loads the auxiliary state that `finalize` sees: fields of the reduction's own domain.
template <class S, class R>
KHD void load_finalize_aux_state(const Scope<S>& scope, int64 entry,
                                 typename R::Component::AuxState& m) {
  using Domain = typename R::Domain;
  constexpr bool kPrepared = R::component == kRuleComponent && kSame<Domain, tensor>;
  bool earlier = false;
  for_reductions<S>([&](auto q) {
    using Q = decltype(q);
    if constexpr (Q::component == R::component && kSame<typename Q::Domain, Domain> &&
                  (Q::pass < R::pass || (Q::pass == R::pass && Q::number < R::number)))
      earlier = true;
  });
  if constexpr (kPrepared)
    m = scope.aux;
  else
    load_prev_aux_state<S, R::component, Domain>(scope.tensor, scope.hyper_params, entry, m);
  if (earlier)
    load_next_aux_state<S, R::component, Domain>(scope.tensor, scope.hyper_params, entry, m);
}

// Centralization applies to tensors of two or more dimensions. A rule may declare that it also applies to vectors, as
// in the rule's original.
template <class S>
KHD bool is_centered(const TensorRecord& tensor) {
  if constexpr (requires { S::Rule::Body::centralizes_vectors; })
    return S::Rule::Body::centralizes_vectors || tensor.dims >= 2;
  else
    return tensor.dims >= 2;
}

// Calls a codec's `finalize`. The codec's numbers may be options of the rule, with the values of this step.
template <class S, class R>
KHD typename R::Coefficients finalize_codec(const Scope<S>& scope, const Totals<R::terms>& totals,
                                            int64 count, typename R::Component::AuxState& m) {
  using Body = typename R::Component::Body;
  using Hyper = typename R::Component::Hyper;
  constexpr Of<typename R::Coefficients> name;
  if constexpr (requires(const Hyper& h) { Body::finalize(name, totals, count, h, m); })
    return Body::finalize(name, totals, count,
                          R::Component::Numbers::of(rule_hyper<S>(scope.hyper_params)), m);
  else
    return Body::finalize(name, totals, count, m);
}

template <class S, class R>
KHD typename R::Coefficients finalize_component(const Scope<S>& scope,
                                                const Totals<R::terms>& totals, int64 count,
                                                typename R::Component::AuxState& m) {
  using Body = typename R::Component::Body;
  constexpr Of<typename R::Coefficients> name;
  if constexpr (R::component == kGradientComponent) {
    return Body::finalize(name, totals, count, scope.gradient, is_centered<S>(scope.tensor));
  } else if constexpr (R::component == kRuleComponent) {
    if constexpr (requires { Body::finalize(name, totals, count, scope.rule, m); })
      return Body::finalize(name, totals, count, scope.rule, m);
    else
      return Body::finalize(name, totals, count, scope.rule);
  } else {
    return finalize_codec<S, R>(scope, totals, count, m);
  }
}

template <class S, class R>
KHD void finalize_entry(const Scope<S>& scope, const ReductionLayout& reduction_layout, int64 entry,
                        bool active) {
  constexpr bool kHasAuxState = R::Component::has_aux_state;
  const int64 partials = reduction_layout.leaves >> reduction_layout.log2_leaves;
  double* x = scope.args.reductions[R::number].partials +
              (reduction_layout.first_partial + entry * partials) * R::terms;
  for (int n = 0; n < R::terms; ++n)
    node_tree<typename R::Op, LanesOfTeam<S::config>>(x + n, partials, R::terms, active);
  if (!active || Tile<kLeaf, S::config>::lane() != 0) return;
  Totals<R::terms> totals;
  UNROLL
  for (int n = 0; n < R::terms; ++n) totals.x[n] = x[n] + 0.0;
  typename R::Component::AuxState m{};
  if constexpr (kHasAuxState) load_finalize_aux_state<S, R>(scope, entry, m);
  auto* to = static_cast<typename R::Coefficients*>(scope.args.reductions[R::number].coefficients);
  to[reduction_layout.first_entry + entry] =
      finalize_component<S, R>(scope, totals, reduction_layout.members, m);
  if constexpr (kHasAuxState)
    store_aux_state<S, R::component, typename R::Domain>(scope.tensor, scope.hyper_params, entry,
                                                         m);
}

// ---- sums over all tensors, in the order of their ids ------------------------------------------

// The root of each tensor's tree, in `real`, is an input of the next tree. A tensor without partial sums has no root.
template <class S>
KHD bool fits_a_warp(const AllRecord& tensor) {
  return S::config.threads >= 32 && tensor.count <= 32;
}

// One warp per tensor, for tensors with few partial sums.
template <class S, class R>
KHD void roots_by_warps(const ReductionRecord& sum, double* roots) {
  const int64 lane = thread_index() % 32;
  for (int i = thread_index() / 32; i < sum.all_count; i += S::config.threads / 32) {
    const AllRecord& tensor = sum.all[i];
    if (tensor.count == 0 || !fits_a_warp<S>(tensor)) continue;
    const double* own = tensor.partials + min(lane, tensor.count - 1) * R::terms;
    for (int n = 0; n < R::terms; ++n) {
      const double node = chosen(lane < tensor.count, own[n], double{R::Op::absent});
      const double root = warp_tree<typename R::Op>(node);
      if (lane == 0)
        roots[static_cast<int64>(tensor.id) * R::terms + n] = static_cast<real>(root + 0.0);
    }
  }
}

// The whole block for each of the other tensors, one after another. The tree works in place, so the block copies the
// partial sums first.
template <class S, class R>
KHD void roots_by_block(const ReductionRecord& sum, double* roots, double* work) {
  using Block = ThreadsOfBlock<S::config>;
  for (int i = 0; i < sum.all_count; ++i) {
    const AllRecord& tensor = sum.all[i];
    if (tensor.count == 0 || fits_a_warp<S>(tensor)) continue;
    for (int64 k = Block::index(); k < tensor.count * R::terms; k += Block::size)
      work[k] = tensor.partials[k];
    Block::barrier();
    for (int n = 0; n < R::terms; ++n) {
      node_tree<typename R::Op, Block>(work + n, tensor.count, R::terms, true);
      if (Block::index() == 0)
        roots[static_cast<int64>(tensor.id) * R::terms + n] = static_cast<real>(work[n] + 0.0);
    }
    Block::barrier();
  }
}

// Sums one leaf of tensor ids in `real`, in place. The result is in its first element.
template <class S, class R>
KHD void id_leaf(double* leaf) {
  using Block = ThreadsOfBlock<S::config>;
  for (int half = kLeaf / 2; half >= 1; half /= 2) {
    for (int start = 0; start < half; start += Block::size) {
      const int i = start + static_cast<int>(Block::index());
      double* x = leaf + i * R::terms;
      real node = 0;
      if (i < half)
        node = R::Op::combine(static_cast<real>(*x), static_cast<real>(x[half * R::terms]));
      Block::barrier();
      if (i < half) *x = node;
      Block::barrier();
    }
  }
}

// The scope of a group's `finalize` over all tensors. It has scalars, and results over all tensors from earlier
// passes. Of the auxiliary state, it has only shared state.
template <class S, int Pass>
KHD Scope<S> scope_of_set(const Args& args, int hyper_index) {
  Prepared<S> prepared{};
  load_prev_aux_state<S, kRuleComponent, all>(args.tensors[0], args.hyper_params[hyper_index], 0,
                                              prepared.aux);
  prepare_set<S>(args.hyper_params[hyper_index], args.tensors[0], prepared);
  Scope<S> scope{args, args.tensors[0], args.steps[0], args.hyper_params[hyper_index], {},
                 {},   prepared.aux};
  static_cast<ScalarsOf<typename S::Gradient>&>(scope.gradient) = prepared.gradient;
  static_cast<ScalarsOf<typename S::Rule>&>(scope.rule) = prepared.rule;
  load_shared_coefficients<S, Pass>(args, hyper_index, scope.gradient, scope.rule);
  return scope;
}

// Computes one group's result of a sum over all tensors. The group of the shared-state writer stores shared state.
template <class S, class R>
KHD void finalize_set(const Args& args, int hyper_index, const Totals<R::terms>& totals,
                      int64 count, bool writes_shared_state) {
  const Scope<S> scope = scope_of_set<S, R::pass>(args, hyper_index);
  typename R::Component::AuxState m{};
  if constexpr (R::Component::has_aux_state) m = scope.aux;
  static_cast<typename R::Coefficients*>(args.reductions[R::number].coefficients)[hyper_index] =
      finalize_component<S, R>(scope, totals, count, m);
  if constexpr (finalize_has_aux_state<R>())
    if (writes_shared_state)
      store_aux_state<S, R::component, all>(scope.tensor, scope.hyper_params, 0, m);
}

template <class S, class R>
KHD void finalize_all(const Args& args) {
  using Block = ThreadsOfBlock<S::config>;
  const ReductionRecord& sum = args.reductions[R::number];
  const int64 leaves = (sum.all_ids + kLeaf - 1) / kLeaf;
  double* roots = sum.work;
  for (int64 k = Block::index(); k < leaves * kLeaf * R::terms; k += Block::size)
    roots[k] = R::Op::absent;
  Block::barrier();
  if constexpr (S::config.threads >= 32) roots_by_warps<S, R>(sum, roots);
  roots_by_block<S, R>(sum, roots, roots + leaves * kLeaf * R::terms);
  Block::barrier();
  for (int n = 0; n < R::terms; ++n) {
    for (int64 leaf = 0; leaf < leaves; ++leaf) id_leaf<S, R>(roots + leaf * kLeaf * R::terms + n);
    node_tree<typename R::Op, Block>(roots + n, leaves, kLeaf * R::terms, true);
  }
  Totals<R::terms> totals;
  UNROLL
  for (int n = 0; n < R::terms; ++n) totals.x[n] = roots[n] + 0.0;
  int64 count = 0;
  for (int i = 0; i < sum.all_count; ++i) count += sum.all[i].n;
  const int writer =
      args.shared_state_writer < 0 ? -1 : args.steps[args.shared_state_writer].hyper_index;
  // Only those of own tensors: other HyperParams may be those of other rules. Neighbors mostly have the same ones.
  for (int tensor = thread_index(); tensor < args.tensor_count; tensor += Block::size) {
    const int index = args.steps[tensor].hyper_index;
    if (index < 0 || (tensor > 0 && args.steps[tensor - 1].hyper_index == index)) continue;
    finalize_set<S, R>(args, index, totals, count, index == writer);
  }
}

template <class S, int Pass>
KHD void finalize_item(const Args& args, const Item& item, Preparation<S>& preparation) {
  using Shape = Tile<kLeaf, S::config>;
  const Scope<S> scope = scope_of<S, Pass>(args, item.tensor, preparation.of(args, item.tensor));
  const ReductionLayout& reduction_layout = scope.tensor.reduction_layouts[item.reduction_layout];
  for (int start = 0; start < S::config.leaves_per_item; start += Shape::teams) {
    const int slot = start + Shape::team();
    const int64 entry = item.first + slot;
    const bool active = slot < S::config.leaves_per_item && entry < reduction_layout.entries;
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (R::pass == Pass && !R::is_global)
        if (R::reduction_layout == item.reduction_layout)
          finalize_entry<S, R>(scope, reduction_layout, entry, active);
    });
  }
}

template <class S, int Pass>
KHD void finalize(const Args& args, Range range) {
  Preparation<S> preparation;
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    if (item.reduction_layout != kGlobalLayout) {
      finalize_item<S, Pass>(args, item, preparation);
      continue;
    }
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (R::pass == Pass && R::is_global) finalize_all<S, R>(args);
    });
    block_barrier();
  }
}

}  // namespace jitstep
