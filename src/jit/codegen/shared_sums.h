// Sums over all tensors, which several kernels of a step compute together.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// Identifies a sum over all tensors, independently of its index in a kernel. Sums of the same name are the same sum.
struct SumName {
  int component = kGradientComponent;
  std::string declared_by;  // the rule or codec
  std::string name;

  auto operator<=>(const SumName&) const = default;
};

/// The sums over all tensors that a kernel computes.
std::vector<SumName> sums_of(const Plan& plan);

/// A kernel's reduction for this sum. Null if the kernel does not compute it.
const ResolvedReduction* find_sum(const Plan& plan, const SumName& name);

/// True if a step of one tensor needs all others: the kernel has a sum over all tensors, or shared state.
JITSTEP_API bool needs_all_tensors(const Plan& plan);

/// True if a step of each element needs no other element, except for blocks of a codec. A part of a tensor can then be
/// stepped like a tensor of its own: there are no reductions, no host transform, and auxiliary state is per tensor.
JITSTEP_API bool is_elementwise(const Plan& plan);

/// Makes the plans of kernels that step together consistent. If one plan has a sum of a gradient option over all
/// tensors, all plans get it, with their own numbers. A gradient option with a neutral number changes nothing. Plans
/// that share a sum compute it in the same pass, the latest that any of them needs. Throws an Error if two plans
/// declare the same sum differently.
void share_sums(std::vector<Plan>& plans);

}  // namespace jitstep::jit
