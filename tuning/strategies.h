// Which candidate is tried next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jit/codegen/config_search.h"
#include "jit/codegen/config_space.h"
#include "tuning/model.h"

namespace jitstep::tuning {

/// The names that make_strategy() knows: exhaustive, random, local.
const std::vector<std::string>& strategy_names();

/// A strategy over all of a space but the default, which every candidate is compared with.
///
/// exhaustive: all, in the order of the model. random: all, in an order by `seed`. local: the best three by the model,
/// then the neighbours of the fastest found so far, the model's best first, until none of them is left.
/// An Error lists the names if there is none of this one.
jit::Strategy make_strategy(const std::string& name, const jit::ConfigSpace& space,
                            const Model& model, std::uint64_t seed = 1);

/// The space without the default, by ascending cost; equals keep their order.
std::vector<jit::KernelConfig> by_model(const jit::ConfigSpace& space, const Model& model);

}  // namespace jitstep::tuning
