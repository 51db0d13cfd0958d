// Search strategies: they choose the next candidate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jit/search/config_search.h"
#include "jit/search/config_space.h"
#include "tuning/model.h"

namespace jitstep::tuning {

/// The names that make_strategy() accepts: exhaustive, random, local.
const std::vector<std::string>& strategy_names();

/// A strategy over all configurations of a space except the default, which each candidate is compared with.
///
/// exhaustive: all, in the order of the model. random: all, in an order that depends on `seed`. local: the best three
/// by the model, then the neighbors of the fastest so far in the order of the model, until all were tried.
/// Throws an Error that lists the names for an unknown one.
jit::Strategy make_strategy(const std::string& name, const jit::ConfigSpace& space,
                            const Model& model, std::uint64_t seed = 1);

/// The space without the default, by ascending cost. The sort is stable.
std::vector<jit::KernelConfig> by_model(const jit::ConfigSpace& space, const Model& model);

}  // namespace jitstep::tuning
