// Codecs and weight formats.
#include <jit/base/text.h>

#include "../declared.h"
#include "kernels.h"
#include "markdown.h"
#include "pages.h"

namespace jitstep::tool::catalogue {
namespace {

using namespace jitstep::jit;

// "block=256 (a power of two, in [32, 1024]), floor=true (true, false)".
std::string options_of_codec(const Manifest& codec) {
  std::vector<std::string> all;
  for (const auto* some : {&codec.hyper, &codec.flags})
    for (const Option& option : *some)
      all.push_back(
          text(code(option.name + "=" + to_string(option.initial)), " (", taken_by(option), ")"));
  return joined(all);
}

std::string codecs_table(const Catalog& catalog) {
  Rows rows = {{"codec", "what it is", "bits of a value", "bytes of a block beside", "options"}};
  for (const std::string& name : codecs(catalog)) {
    const Manifest& codec = catalog.codec(name);
    rows.push_back({code(name), codec.description, text(codec.code_bits(Dtype::float32)),
                    codec.meta.empty() ? "" : text(codec.meta_bytes()), options_of_codec(codec)});
  }
  return table(rows);
}

std::string weights_table(const Catalog& catalog) {
  Rows rows = {{"weights", "what it is", "for parameters of", "bytes beside each", "random bits"}};
  for (const std::string& name : catalog.names(Manifest::Kind::weights)) {
    const Manifest& weights = catalog.weights(name);
    rows.push_back({code(name), weights.description,
                    joined(weights.dtypes, ", ", [](Dtype dtype) { return to_string(dtype); }),
                    text(weights.extra_bytes()), weights.random ? "yes" : "no"});
  }
  return table(rows);
}

}  // namespace

std::string formats(const Catalog& catalog) {
  return "## State and weight formats\n\n" + codecs_table(catalog) + weights_table(catalog);
}

}  // namespace jitstep::tool::catalogue
