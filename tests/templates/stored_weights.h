// Round trips of values through a weight format with a residual.
#pragma once

#include "../../templates/weights/master.cuh"
#include "../../templates/weights/split16.cuh"

namespace jitstep {

/// The value that the next step's rule reads.
template <class W>
float back(float x) {
  typename W::Residual residual{};
  const auto bits = W::store(x, 0, residual);
  return W::load(bits, residual);
}

/// The parameter alone.
template <class W>
float shown(float x) {
  typename W::Residual residual{};
  return W::Format::load(W::store(x, 0, residual));
}

/// Formats that store every float exactly.
using ExactWeightFormats =
    testing::Types<weights::master::Weights<BFloat16>, weights::master::Weights<Float16>,
                   weights::split16::Weights<BFloat16>>;

}  // namespace jitstep
