// Steps of one optimizer whose tensors are shared among ranks. The ranks are threads, which exchange partial sums in
// memory.
#pragma once

#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "emulation/step_run.h"
#include "jit/step/partition.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::support {
using namespace emulation;

/// Tensors, formats and steps of one case.
struct RankCase {
  std::string name;  // a gtest parameter's name
  std::string rule;
  std::string state = "";    // codec of all slots; "": the default
  std::string weights = "";  // weight format; "": the default
  jit::Dtype dtype = jit::Dtype::float32;
  jit::NamedValues options = {};
  std::vector<std::vector<std::int64_t>> sizes = {{5001}, {300, 257}, {1},  {4095},   {64, 64},
                                                  {4097}, {0},        {33}, {100, 90}};
  /// Groups of tensors by options: tensor i steps with group i % size(). Empty: all with `options`.
  std::vector<jit::NamedValues> groups = {};
  int inactive = -1;                      // a tensor without a gradient in step 2
  bool refuses = false;                   // found_inf skips step 2
  std::vector<int> leaves_per_item = {};  // configuration of each rank; empty: the default
};
inline void PrintTo(const RankCase& c, std::ostream* out) { *out << c.name; }

/// What the ranks have after the steps, by name. Codes, metadata and residuals of parts are concatenated.
using RankOutcome = std::map<std::string, std::vector<std::byte>>;

/// Runs the case with one rank per device. Every rank has the parts that jit::Partition gives it. With a single device
/// the step has whole tensors. Rethrows the error of a rank. Throws an Error if ranks differ in auxiliary or shared
/// state, which all of them have. `exchanges`: false to see that results then change.
RankOutcome step_ranks(const RankCase& c, const std::vector<Device>& ranks, bool exchanges = true);

/// The names of buffers that differ.
std::vector<std::string> differing(const RankOutcome& one, const RankOutcome& other);

/// The cases of the default tests: every kind of sum, of auxiliary state, and of format.
std::vector<RankCase> rank_cases();

inline constexpr auto kRankCaseName = [](const auto& info) { return info.param.name; };

}  // namespace jitstep::support
