// The page of state formats, weight formats and supported combinations.
#include <jit/base/text.h>

#include "../jitstep/cost.h"
#include "../jitstep/declared.h"
#include "markdown.h"
#include "pages.h"

namespace jitstep::reference {
namespace {

using namespace jitstep::jit;
using namespace jitstep::tool;

// "block=256 (a power of two, in [32, 1024]), floor=true (true, false)".
std::string options_of_codec(const Manifest& codec) {
  std::vector<std::string> all;
  for (const auto* some : {&codec.hyper, &codec.flags})
    for (const Option& option : *some)
      all.push_back(str_cat(code(option.name + "=" + to_string(option.initial)), " (",
                            range_of(option), ")"));
  return joined(all);
}

std::string codecs_table(const Catalog& catalog) {
  Rows rows = {{"state format", "description", "bits per value", "bytes per block", "options"}};
  for (const std::string& name : codec_columns(catalog)) {
    const Manifest& codec = catalog.codec(name);
    rows.push_back({code(name), codec.description, str_cat(codec.code_bits(Dtype::float32)),
                    codec.meta.empty() ? "" : str_cat(codec.meta_bytes()),
                    options_of_codec(codec)});
  }
  return table(rows);
}

std::string weights_table(const Catalog& catalog) {
  Rows rows = {
      {"weight format", "description", "dtypes", "residual, bytes per parameter", "stochastic"}};
  for (const std::string& name : catalog.names(Manifest::Kind::weights)) {
    const Manifest& weights = catalog.weights(name);
    rows.push_back({code(name), weights.description,
                    joined(weights.dtypes, ", ", [](Dtype dtype) { return to_string(dtype); }),
                    str_cat(weights.residual_bytes()), weights.random ? "yes" : "no"});
  }
  return table(rows);
}

}  // namespace

Page formats_page(const Catalog& catalog) {
  return {"reference/formats.md",
          str_cat(kGenerated, "# Formats\n\n## State formats\n\n",
                  "Select one by `.state(\"int8\")` for all slots, or by `.state(\"exp_avg\", "
                  "\"int8\")` for one.\n[Bytes per parameter](bytes.md) of all optimizers, "
                  "[advice](../guides/choosing-a-format.md).\n\n",
                  codecs_table(catalog),
                  "## Weight formats\n\nSelect one by `.weights(\"split16\")`.\n\n",
                  weights_table(catalog), refusals(catalog))};
}

}  // namespace jitstep::reference
