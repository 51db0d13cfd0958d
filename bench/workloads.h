// Lists of tensors by name: bench/shapes.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace jitstep::bench {

/// The shapes of the parameters of one comparison.
struct Workload {
  std::string title;
  std::vector<std::vector<std::int64_t>> shapes;

  std::int64_t elements() const;
};

/// Those of shapes.json with these names; an std::exception names one that is not there.
std::vector<Workload> read_workloads(const std::vector<std::string>& names);

}  // namespace jitstep::bench
