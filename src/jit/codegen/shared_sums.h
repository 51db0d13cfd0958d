// Sums over all tensors, which kernels that step together take together.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// What a sum over all tensors is, whatever its number in a kernel. Sums of the same name are the same sum.
struct SumName {
  int part = kGradientComponent;
  std::string declared_by;  // the rule or codec
  std::string name;

  auto operator<=>(const SumName&) const = default;
};

/// The sums over all tensors that a kernel takes.
std::vector<SumName> sums_of(const Plan& plan);

/// A kernel's reduction that is this sum, or null if it does not take it.
const ResolvedReduction* find_sum(const Plan& plan, const SumName& name);

/// Makes the plans of kernels that step together agree. Where one takes a sum of the gradient's over all
/// tensors, all take it, with their own numbers: a transform with a neutral number changes nothing. A sum
/// that several take is taken in the same pass, the latest that any of them needs. Throws an Error if the
/// same sum is declared differently.
void share_sums(std::vector<Plan>& plans);

}  // namespace jitstep::jit
