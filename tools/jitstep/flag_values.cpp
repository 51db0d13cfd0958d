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
using Words = std::vector<std::string>;
using Kind = Manifest::Kind;

Words names_of(Kind kind) { return default_catalog().names(kind); }

Words targets() {
  Words all = {"cpu", "emulated"};
  std::string problem;
  if (const auto nvrtc = find_nvrtc(Settings::from_environment(), 0, problem))
    for (const int sm : nvrtc->archs) all.push_back(to_string(Target::cuda(sm)));
  if (all.size() == 2) all.insert(all.end(), {"sm_80", "sm_90", "sm_100", "sm_120"});
  return all;
}

Words everything() {
  Words all = names_of(Kind::rule);
  for (const Kind kind : {Kind::codec, Kind::weights})
    for (const std::string& name : names_of(kind)) all.push_back(name);
  return all;
}

Words dtypes() { return {"float64", "float32", "bfloat16", "float16"}; }

}  // namespace

std::vector<std::string> values_of(const std::string& flag) {
  static const std::map<std::string, Words (*)()> known = {
      {"--rule", [] { return names_of(Kind::rule); }},
      {"--state", [] { return names_of(Kind::codec); }},
      {"--states", [] { return names_of(Kind::codec); }},
      {"--weights", [] { return names_of(Kind::weights); }},
      {"--param", &dtypes},
      {"--grad", &dtypes},
      {"--target", &targets},
      {"--show", &inspect::section_names},
      {"--strategy", [] { return tuning::strategy_names(); }},
      {"--cpu", [] { return Words(std::begin(kCpus), std::end(kCpus)); }},
      {"name", &everything},
      {"shell", [] {
         return Words{"bash", "zsh", "fish"};
       }}};
  const auto found = known.find(flag);
  return found == known.end() ? Words() : found->second();
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](const std::string& word) {
        if (std::find(words.begin(), words.end(), word) != words.end()) return std::string();
        return str_cat("there is no \"", word, "\"", did_you_mean(word, words), "; there are ",
                       joined(words));
      },
      "");
}

CLI::Validator is_target() {
  return CLI::Validator(
      [](const std::string& word) {
        try {
          parse_target(word);
          return std::string();
        } catch (const Error&) {
          return str_cat("there is no target \"", word, "\"", did_you_mean(word, targets()),
                         "; use cpu, emulated or sm_ with a number, as in sm_90");
        }
      },
      "");
}

}  // namespace jitstep::tool
