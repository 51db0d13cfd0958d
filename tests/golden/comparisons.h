// Comparisons with a recorded trajectory.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "support/safetensors.h"

namespace jitstep::tests {

inline torch::Tensor to_torch(const support::RecordedTensor& recorded) {
  const auto dtype = recorded.dtype == "F64"    ? torch::kFloat64
                     : recorded.dtype == "BF16" ? torch::kBFloat16
                                                : torch::kFloat32;
  return torch::from_blob(const_cast<std::byte*>(recorded.bytes.data()), recorded.shape, dtype)
      .clone();
}

/// The elements in row order, as doubles.
inline std::vector<double> numbers(const torch::Tensor& tensor) {
  const auto flat = tensor.detach().to(torch::kFloat64).contiguous().view(-1);
  const double* first = flat.const_data_ptr<double>();
  return std::vector<double>(first, first + flat.numel());
}

/// Expects |ours - theirs| <= atol + rtol |theirs|, except for a fraction `share` of the elements.
inline void close(const std::string& what, const std::vector<double>& ours,
                  const std::vector<double>& theirs, double rtol, double atol, double share) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  std::size_t outside = 0;
  double worst = 0;
  for (std::size_t k = 0; k < ours.size(); ++k) {
    const double error = std::abs(ours[k] - theirs[k]);
    if (error <= atol + rtol * std::abs(theirs[k])) continue;
    ++outside;
    worst = std::max(worst, error);
  }
  EXPECT_LE(static_cast<double>(outside), share * static_cast<double>(ours.size()))
      << what << ": " << outside << " of " << ours.size() << " outside, the worst by " << worst;
}

/// Compares codes of one byte, signed or unsigned, or of half a byte.
inline void differ_little(const std::string& name, const torch::Tensor& stored,
                          const support::RecordedTensor& expected, double share) {
  const auto* bytes = static_cast<const std::uint8_t*>(stored.const_data_ptr());
  const auto theirs = expected.values();
  const bool nibbles = stored.numel() < static_cast<std::int64_t>(theirs.size());
  std::size_t differ = 0;
  for (std::size_t k = 0; k < theirs.size(); ++k)
    differ += (nibbles ? bytes[k / 2] >> (4 * (k & 1)) & 15 : bytes[k]) !=
              (static_cast<int>(theirs[k]) & 255);
  EXPECT_LE(static_cast<double>(differ), share * static_cast<double>(theirs.size()))
      << name << ": " << differ << " of " << theirs.size() << " codes differ";
}

/// Decodes scales of six exponent bits and ten fraction bits (templates/codecs/int8_softsign.cuh).
inline std::vector<double> short_scales(const torch::Tensor& meta) {
  const torch::Tensor stored = meta.view(torch::kInt16);
  std::vector<double> scales;
  for (std::int64_t k = 0; k < stored.numel(); ++k) {
    const int bits = stored[k].item<std::int16_t>() & 0xffff, exponent = bits >> 10;
    const int fraction = (bits & 0x3ff) + (exponent > 0 ? 0x400 : 0);
    scales.push_back(std::ldexp(fraction, std::max(exponent, 1) - 41 - 10));
  }
  return scales;
}

}  // namespace jitstep::tests
