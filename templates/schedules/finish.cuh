// Second half of a pass: one team per entry adds the partial sums and calls `finish`.
#pragma once
#include "partials.cuh"

namespace jitstep {

// Loads the auxiliary state that `finish` sees: fields of the reduction's own domain.
template <class S, class R>
KHD void load_finish_memory(const Scope<S>& scope, int64 entry, typename R::Part::Memory& m) {
  using Domain = typename R::Domain;
  constexpr bool kPrepared = R::part == kRulePart && kSame<Domain, tensor>;
  bool earlier = false;
  for_reductions<S>([&](auto q) {
    using Q = decltype(q);
    if constexpr (Q::part == R::part && kSame<typename Q::Domain, Domain> &&
                  (Q::pass < R::pass || (Q::pass == R::pass && Q::number < R::number)))
      earlier = true;
  });
  if constexpr (kPrepared)
    m = scope.memory;
  else
    load_old_memory<S, R::part, Domain>(scope.tensor, scope.set, entry, m);
  if (earlier) load_new_memory<S, R::part, Domain>(scope.tensor, scope.set, entry, m);
}

// Centralization applies to tensors of two or more dimensions. A rule may declare that it also applies
// to vectors, as in the rule's original.
template <class S>
KHD bool is_centered(const TensorRecord& tensor) {
  if constexpr (requires { S::Rule::Body::centralizes_vectors; })
    return S::Rule::Body::centralizes_vectors || tensor.dims >= 2;
  else
    return tensor.dims >= 2;
}

// Calls a codec's `finish`. Its numbers may be the rule's current ones.
template <class S, class R>
KHD typename R::Coefficients finish_codec(const Scope<S>& scope, const Totals<R::terms>& totals,
                                          int64 count, typename R::Part::Memory& m) {
  using Body = typename R::Part::Body;
  using Hyper = typename R::Part::Hyper;
  constexpr Of<typename R::Coefficients> name;
  if constexpr (requires(const Hyper& h) { Body::finish(name, totals, count, h, m); })
    return Body::finish(name, totals, count, R::Part::Numbers::of(rule_hyper<S>(scope.set)), m);
  else
    return Body::finish(name, totals, count, m);
}

template <class S, class R>
KHD typename R::Coefficients finish_part(const Scope<S>& scope, const Totals<R::terms>& totals,
                                         int64 count, typename R::Part::Memory& m) {
  using Body = typename R::Part::Body;
  constexpr Of<typename R::Coefficients> name;
  if constexpr (R::part == kGradientPart) {
    return Body::finish(name, totals, count, scope.gradient, is_centered<S>(scope.tensor));
  } else if constexpr (R::part == kRulePart) {
    if constexpr (requires { Body::finish(name, totals, count, scope.rule, m); })
      return Body::finish(name, totals, count, scope.rule, m);
    else
      return Body::finish(name, totals, count, scope.rule);
  } else {
    return finish_codec<S, R>(scope, totals, count, m);
  }
}

template <class S, class R>
KHD void finish_entry(const Scope<S>& scope, const Space& space, int64 entry, bool active) {
  constexpr bool kRemembers = R::Part::remembers;
  const int64 partials = space.leaves >> space.fold;
  double* x = scope.args.reductions[R::number].partials +
              (space.first_partial + entry * partials) * R::terms;
  for (int n = 0; n < R::terms; ++n)
    node_tree<typename R::Type, LanesOfTeam<S::variant>>(x + n, partials, R::terms, active);
  if (!active || Tile<kLeaf, S::variant>::lane() != 0) return;
  Totals<R::terms> totals;
  UNROLL
  for (int n = 0; n < R::terms; ++n) totals.x[n] = x[n] + 0.0;
  typename R::Part::Memory m{};
  if constexpr (kRemembers) load_finish_memory<S, R>(scope, entry, m);
  auto* to = static_cast<typename R::Coefficients*>(scope.args.reductions[R::number].coefficients);
  to[space.first_entry + entry] = finish_part<S, R>(scope, totals, space.members, m);
  if constexpr (kRemembers)
    store_memory<S, R::part, typename R::Domain>(scope.tensor, scope.set, entry, m);
}

// ---- sums over all tensors, in the order of their ids ------------------------------------------

// The roots of tensors, in `real`, are the indices of the next tree. A tensor without partial sums has no root.
template <class S>
KHD bool fits_a_warp(const AllRecord& tensor) {
  return S::variant.threads >= 32 && tensor.count <= 32;
}

// One warp per tensor, for tensors with few partial sums.
template <class S, class R>
KHD void roots_by_warps(const ReductionRecord& sum, double* roots) {
  const int64 lane = thread_index() % 32;
  for (int i = thread_index() / 32; i < sum.all_count; i += S::variant.threads / 32) {
    const AllRecord& tensor = sum.all[i];
    if (tensor.count == 0 || !fits_a_warp<S>(tensor)) continue;
    const double* own = tensor.partials + min(lane, tensor.count - 1) * R::terms;
    for (int n = 0; n < R::terms; ++n) {
      const double node = chosen(lane < tensor.count, own[n], double{R::Type::absent});
      const double root = warp_tree<typename R::Type>(node);
      if (lane == 0)
        roots[static_cast<int64>(tensor.id) * R::terms + n] = static_cast<real>(root + 0.0);
    }
  }
}

// The whole block for each of the other tensors, one after another. Their partial sums are copied first.
template <class S, class R>
KHD void roots_by_block(const ReductionRecord& sum, double* roots, double* work) {
  using Block = ThreadsOfBlock<S::variant>;
  for (int i = 0; i < sum.all_count; ++i) {
    const AllRecord& tensor = sum.all[i];
    if (tensor.count == 0 || fits_a_warp<S>(tensor)) continue;
    for (int64 k = Block::place(); k < tensor.count * R::terms; k += Block::size)
      work[k] = tensor.partials[k];
    Block::barrier();
    for (int n = 0; n < R::terms; ++n) {
      node_tree<typename R::Type, Block>(work + n, tensor.count, R::terms, true);
      if (Block::place() == 0)
        roots[static_cast<int64>(tensor.id) * R::terms + n] = static_cast<real>(work[n] + 0.0);
    }
    Block::barrier();
  }
}

// Sums one leaf of tensor ids in `real`, in place. The result is in its first element.
template <class S, class R>
KHD void id_leaf(double* leaf) {
  using Block = ThreadsOfBlock<S::variant>;
  for (int half = kLeaf / 2; half >= 1; half /= 2) {
    for (int start = 0; start < half; start += Block::size) {
      const int i = start + static_cast<int>(Block::place());
      double* x = leaf + i * R::terms;
      real node = 0;
      if (i < half)
        node = R::Type::combine(static_cast<real>(*x), static_cast<real>(x[half * R::terms]));
      Block::barrier();
      if (i < half) *x = node;
      Block::barrier();
    }
  }
}

// The scope of a group's `finish` over all tensors: scalars, and results over all tensors from earlier passes. Only
// shared state is visible here.
template <class S, int Pass>
KHD Scope<S> scope_of_set(const Args& args, int set) {
  Prepared<S> prepared{};
  load_old_memory<S, kRulePart, all>(args.tensors[0], args.sets[set], 0, prepared.memory);
  prepare_set<S>(args.sets[set], prepared);
  Scope<S> scope{args, args.tensors[0], args.steps[0], args.sets[set], {}, {}, prepared.memory};
  static_cast<ScalarsOf<typename S::Gradient>&>(scope.gradient) = prepared.gradient;
  static_cast<ScalarsOf<typename S::Rule>&>(scope.rule) = prepared.rule;
  load_shared_coefficients<S, Pass>(args, set, scope.gradient, scope.rule);
  return scope;
}

// Computes one group's result of a sum over all tensors. The writer's group stores shared state.
template <class S, class R>
KHD void finish_set(const Args& args, int set, const Totals<R::terms>& totals, int64 count,
                    bool leads) {
  const Scope<S> scope = scope_of_set<S, R::pass>(args, set);
  typename R::Part::Memory m{};
  if constexpr (R::Part::remembers) m = scope.memory;
  static_cast<typename R::Coefficients*>(args.reductions[R::number].coefficients)[set] =
      finish_part<S, R>(scope, totals, count, m);
  if constexpr (finish_remembers<R>())
    if (leads) store_memory<S, R::part, all>(scope.tensor, scope.set, 0, m);
}

template <class S, class R>
KHD void finish_all(const Args& args) {
  using Block = ThreadsOfBlock<S::variant>;
  const ReductionRecord& sum = args.reductions[R::number];
  const int64 leaves = (sum.all_ids + kLeaf - 1) / kLeaf;
  double* roots = sum.work;
  for (int64 k = Block::place(); k < leaves * kLeaf * R::terms; k += Block::size)
    roots[k] = R::Type::absent;
  Block::barrier();
  if constexpr (S::variant.threads >= 32) roots_by_warps<S, R>(sum, roots);
  roots_by_block<S, R>(sum, roots, roots + leaves * kLeaf * R::terms);
  Block::barrier();
  for (int n = 0; n < R::terms; ++n) {
    for (int64 leaf = 0; leaf < leaves; ++leaf) id_leaf<S, R>(roots + leaf * kLeaf * R::terms + n);
    node_tree<typename R::Type, Block>(roots + n, leaves, kLeaf * R::terms, true);
  }
  Totals<R::terms> totals;
  UNROLL
  for (int n = 0; n < R::terms; ++n) totals.x[n] = roots[n] + 0.0;
  int64 count = 0;
  for (int i = 0; i < sum.all_count; ++i) count += sum.all[i].n;
  const int leading = args.leader < 0 ? -1 : args.steps[args.leader].set;
  for (int set = thread_index(); set < args.set_count; set += Block::size)
    finish_set<S, R>(args, set, totals, count, set == leading);
}

template <class S, int Pass>
KHD void finish_item(const Args& args, const Item& item, Preparation<S>& preparation) {
  using Shape = Tile<kLeaf, S::variant>;
  const Scope<S> scope = scope_of<S, Pass>(args, item.tensor, preparation.of(args, item.tensor));
  const Space& space = scope.tensor.spaces[item.space];
  for (int start = 0; start < S::variant.chunk; start += Shape::teams) {
    const int slot = start + Shape::team();
    const int64 entry = item.first + slot;
    const bool active = slot < S::variant.chunk && entry < space.entries;
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (R::pass == Pass && !R::everywhere)
        if (R::space == item.space) finish_entry<S, R>(scope, space, entry, active);
    });
  }
}

template <class S, int Pass>
KHD void finish(const Args& args, Range range) {
  Preparation<S> preparation;
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    if (item.space != kAllSpace) {
      finish_item<S, Pass>(args, item, preparation);
      continue;
    }
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (R::pass == Pass && R::everywhere) finish_all<S, R>(args);
    });
    block_barrier();
  }
}

}  // namespace jitstep
