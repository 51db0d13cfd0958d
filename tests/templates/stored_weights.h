// What a weight format with something beside the parameter makes of a value.
#pragma once

#include "../../templates/weights/master.cuh"
#include "../../templates/weights/split16.cuh"

namespace jitstep {

/// The value as the next step's rule sees it.
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

/// Those that give back every float bit for bit.
using ExactWeightFormats =
    testing::Types<weights::master::Weights<BFloat16>, weights::master::Weights<Float16>,
                   weights::split16::Weights<BFloat16>>;

}  // namespace jitstep
