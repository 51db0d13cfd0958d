// What a sum or a field of memory is kept for: every tensor, every row, ...; contract.cuh's domains on the
// host.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// What one entry of a reduction or of memory covers; `axis` has a dimension.
struct JITSTEP_API Domain {
  /// The domains of contract.cuh.
  enum class Kind { all, tensor, first, rows, columns, matrices, axis };

  Kind kind = Kind::tensor;
  int axis = 0;

  /// The number of the walk in TensorRecord::spaces.
  int reduction_layout() const;
  /// One bit for each dimension that runs inside an entry, as contract.cuh's reduced(dims).
  unsigned reduced(int dims) const;
  bool operator==(const Domain&) const = default;
};

/// What manifests call the kinds, in their order; an axis has its number behind it: "axis<1>".
inline constexpr std::array<std::string_view, 7> kDomainNames = {
    "all", "tensor", "first", "rows", "columns", "matrices", "axis"};

/// "rows", "axis<1>".
JITSTEP_API std::string to_string(const Domain& domain);

}  // namespace jitstep::jit
