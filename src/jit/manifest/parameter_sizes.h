// The sizes of a parameter, as conditions read them. The host's counterpart of Sizes in lang/contract.cuh.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_fields.h"

namespace jitstep::jit {

/// Sizes of a parameter, one per dimension. A scalar is a vector of one element, so there is at least one.
using ParameterSizes = std::vector<std::int64_t>;

/// The names that conditions of a rule may read: dims, numel, fan_in, fan_out and size(K).
const Symbols& size_symbols();

/// The value of one of these names, such as "numel" or "size(-1)".
double value_of_size(std::string_view name, const ParameterSizes& sizes);

/// The sizes that stand for those of a parameter of which only the number of dimensions is known: 4096 each.
ParameterSizes typical_sizes(int dims);

}  // namespace jitstep::jit
