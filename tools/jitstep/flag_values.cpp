#include "flag_values.h"

#include <jit/base/closest.h>
#include <jit/compiler/nvrtc_library.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/settings.h>
#include <jitstep/jit/target.h>

#include <algorithm>
#include <map>

#include "inspect/sections.h"
#include "tuning/strategies.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using Strings = std::vector<std::string>;
using Kind = Manifest::Kind;

Strings names_of(Kind kind) { return default_catalog().names(kind); }

Strings targets() {
  Strings all = {"cpu", "emulated"};
  std::string problem;
  if (const auto nvrtc = find_nvrtc(Settings::from_environment(), 0, problem))
    for (const int sm : nvrtc->archs) all.push_back(to_string(Target::cuda(sm)));
  if (all.size() == 2) all.insert(all.end(), {"sm_80", "sm_90", "sm_100", "sm_120"});
  return all;
}

Strings everything() {
  Strings all = names_of(Kind::rule);
  for (const Kind kind : {Kind::codec, Kind::weights})
    for (const std::string& name : names_of(kind)) all.push_back(name);
  return all;
}

Strings dtypes() { return {"float64", "float32", "bfloat16", "float16"}; }

}  // namespace

std::vector<std::string> values_of(const std::string& flag) {
  static const std::map<std::string, Strings (*)()> known = {
      {"--rule", [] { return names_of(Kind::rule); }},
      {"--state", [] { return names_of(Kind::codec); }},
      {"--states", [] { return names_of(Kind::codec); }},
      {"--weights", [] { return names_of(Kind::weights); }},
      {"--param", &dtypes},
      {"--grad", &dtypes},
      {"--target", &targets},
      {"--show", &inspect::section_names},
      {"--strategy", [] { return tuning::strategy_names(); }},
      {"--cpu", [] { return Strings(std::begin(kCpus), std::end(kCpus)); }},
      {"name", &everything},
      {"shell", [] {
         return Strings{"bash", "zsh", "fish"};
       }}};
  const auto found = known.find(flag);
  return found == known.end() ? Strings() : found->second();
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  return CLI::Validator(
      [names](const std::string& name) {
        if (std::find(names.begin(), names.end(), name) != names.end()) return std::string();
        return str_cat("there is no \"", name, "\"", did_you_mean(name, names), "; there are ",
                       joined(names));
      },
      "");
}

CLI::Validator is_target() {
  return CLI::Validator(
      [](const std::string& name) {
        try {
          parse_target(name);
          return std::string();
        } catch (const Error&) {
          return str_cat("there is no target \"", name, "\"", did_you_mean(name, targets()),
                         ". Use cpu, emulated or sm_ with a number, as in sm_90");
        }
      },
      "");
}

}  // namespace jitstep::tool
