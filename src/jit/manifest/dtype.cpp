#include "jitstep/jit/value.h"

#include <algorithm>
#include <array>

#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

struct Known {
  std::string_view name, type;
  int bytes;
};

// In the order of Dtype.
constexpr std::array<Known, 4> kKnown = {{{"float64", "Float64", 8},
                                          {"float32", "Float32", 4},
                                          {"bfloat16", "BFloat16", 2},
                                          {"float16", "Float16", 2}}};

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const Known& one : kKnown) names.emplace_back(one.name);
  return names;
}

const Known& known(Dtype dtype) { return kKnown[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string to_string(Dtype dtype) { return std::string(known(dtype).name); }

Dtype parse_dtype(std::string_view name) {
  const auto found = std::find_if(kKnown.begin(), kKnown.end(),
                                  [&](const Known& one) { return one.name == name; });
  if (found == kKnown.end())
    throw Error(str_cat("there is no dtype \"", name, "\"", did_you_mean(name, dtype_names()),
                        ". Known dtypes: ", joined(dtype_names())));
  return static_cast<Dtype>(found - kKnown.begin());
}

int bytes_of(Dtype dtype) { return known(dtype).bytes; }

int real_bytes(Dtype parameter) { return parameter == Dtype::float64 ? 8 : 4; }

std::string template_type(Dtype dtype) { return str_cat("jitstep::", known(dtype).type); }

}  // namespace jitstep::jit
