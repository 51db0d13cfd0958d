// The domain of a reduction or of auxiliary state: all tensors, one tensor, one row, ... The host's form of
// contract.cuh's domains.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// What one entry of a reduction or of auxiliary state covers. Only `axis` uses the dimension.
struct JITSTEP_API Domain {
  /// The domains of contract.cuh.
  enum class Kind { all, tensor, first, rows, columns, matrices, axis };

  Kind kind = Kind::tensor;
  int axis = 0;

  /// Index into TensorRecord::reduction_layouts.
  int reduction_layout() const;
  /// One bit per dimension that an entry reduces, as reduced(dims) in contract.cuh.
  unsigned reduced(int dims) const;
  bool operator==(const Domain&) const = default;
};

/// Names of the kinds in manifests, in enum order. An axis has its number in angle brackets: "axis<1>".
inline constexpr std::array<std::string_view, 7> kDomainNames = {
    "all", "tensor", "first", "rows", "columns", "matrices", "axis"};

/// "rows", "axis<1>".
JITSTEP_API std::string to_string(const Domain& domain);

}  // namespace jitstep::jit
