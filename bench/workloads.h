// Reads the lists of tensors in bench/shapes.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace jitstep::bench {

/// The parameter shapes of a comparison.
struct Workload {
  std::string title;
  std::vector<std::vector<std::int64_t>> shapes;

  std::int64_t elements() const;
};

/// The workloads of shapes.json with these names. Throws an std::exception for an unknown name.
std::vector<Workload> read_workloads(const std::vector<std::string>& names);

}  // namespace jitstep::bench
