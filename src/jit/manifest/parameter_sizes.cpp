#include "jit/manifest/parameter_sizes.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include "jit/base/lock_free_static.h"

namespace jitstep::jit {
namespace {

constexpr std::int64_t kTypicalSize = 4096;

double product_from(const ParameterSizes& sizes, std::size_t first) {
  double product = 1;
  for (std::size_t d = first; d < sizes.size(); ++d) product *= static_cast<double>(sizes[d]);
  return product;
}

// Of dimension d, counted from the last one if d is negative. 1 if there is no such dimension.
double size_of(const ParameterSizes& sizes, int d) {
  const auto count = static_cast<int>(sizes.size());
  const int from_first = d < 0 ? d + count : d;
  if (from_first < 0 || from_first >= count) return 1;
  return static_cast<double>(sizes[static_cast<std::size_t>(from_first)]);
}

std::unique_ptr<const Symbols> all_size_symbols() {
  using Type = Symbol::Type;
  return std::make_unique<const Symbols>(Symbols{{"dims", {Type::size, 1, {}}},
                                                 {"numel", {Type::size, 1, {}}},
                                                 {"fan_in", {Type::size, 1, {}}},
                                                 {"fan_out", {Type::size, 1, {}}},
                                                 {"size", {Type::sizes, 1, {}}}});
}

}  // namespace

const Symbols& size_symbols() { return lock_free_static<all_size_symbols>(); }

double value_of_size(std::string_view name, const ParameterSizes& sizes) {
  if (name == "dims") return static_cast<double>(sizes.size());
  if (name == "numel") return product_from(sizes, 0);
  if (name == "fan_in") return product_from(sizes, 1);
  if (name == "fan_out") return size_of(sizes, 0) * product_from(sizes, 2);
  int d = 0;
  const std::string_view index = name.substr(name.find('(') + 1);
  std::from_chars(index.data(), index.data() + index.size(), d);
  return size_of(sizes, d);
}

ParameterSizes typical_sizes(int dims) {
  return ParameterSizes(static_cast<std::size_t>(std::max(dims, 1)), kTypicalSize);
}

}  // namespace jitstep::jit
