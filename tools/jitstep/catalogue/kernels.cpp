#include "kernels.h"

#include <jit/base/text_table.h>
#include <jitstep/jit/formats.h>

#include <algorithm>

#include "../cost.h"

namespace jitstep::tool::catalogue {

using namespace jitstep::jit;

std::vector<std::string> codecs(const Catalog& catalog) {
  std::vector<std::string> names = catalog.names(Manifest::Kind::codec);
  std::stable_partition(names.begin(), names.end(),
                        [](const auto& name) { return name == "fp32"; });
  return names;
}

OptionValues options_of(const std::string& rule, const NamedValues& values) {
  OptionValues options(rule);
  for (const auto& [name, value] : values) options.set(name, value);
  return options;
}

Plan chosen_kernel(const OptionValues& options, int dims, const std::string& codec) {
  return resolve(options, {.state = CodecChoice{codec}},
                 {.dtype = Dtype::float32, .dims = dims, .elements = 1 << 20});
}

std::vector<std::string> cost(const std::string& rule, const emulation::RuleOptions& options,
                              const Catalog& catalog) {
  const OptionValues values = options_of(rule, options.values);
  std::vector<std::string> cells = {
      std::to_string(launches_of(chosen_kernel(values, options.dims, "fp32")))};
  for (const std::string& codec : codecs(catalog))
    cells.push_back(fixed(state_bytes(chosen_kernel(values, options.dims, codec), values).all, 3));
  return cells;
}

}  // namespace jitstep::tool::catalogue
