// The source that a key identifies. It depends on every included template and on every choice that manifests declare,
// and not on numbers that are kernel arguments.
#include <algorithm>
#include <map>
#include <set>

#include "jit/cache/cache_fixtures.h"
#include "jit/codegen/unit.h"
#include "jit/source/preprocess.h"
#include "jit/source/source_map.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

KernelSpec with_state(const std::string& rule, const CodecChoice& codec) {
  KernelSpec spec{.rule = rule};
  spec.state.slots.resize(default_catalog().rule(rule).slots.size(), codec);
  return spec;
}

Unit unit_of(const KernelSpec& spec) {
  const Plan plan = resolve(spec);
  return unit(plan, default_kernel_config(plan, Target::cpu()), Target::cpu());
}

TEST(CacheKeyText, EveryTemplateThatAUnitIncludesChangesIt) {
  const Unit made = unit_of(with_state("adamw", {"int8"}));
  TemplateStore store;
  const std::string before = preprocess(made.text, made.name, store);
  std::set<std::string> digests = {sha256_hex(before)};
  int files = 0;
  for (const std::string& file : file_names(before)) {
    const auto content = store.find(file);
    if (!content) continue;  // the unit itself
    TemplateStore changed;
    changed.add(file, *content + "// one more line\n");
    digests.insert(sha256_hex(preprocess(made.text, made.name, changed)));
    ++files;
  }
  EXPECT_GT(files, 8) << "rule, codec, weights, schedule and core";
  EXPECT_EQ(digests.size(), static_cast<std::size_t>(files) + 1) << "all different";
}

TEST(CacheKeyText, ATemplateThatAUnitDoesNotIncludeDoesNotChangeIt) {
  const Unit made = unit_of(with_state("adamw", {"int8"}));
  TemplateStore store, changed;
  changed.add("rules/lamb.cuh", "// something else\n");
  changed.add("codecs/int4.cuh", "// something else\n");
  EXPECT_EQ(preprocess(made.text, made.name, changed), preprocess(made.text, made.name, store));
}

// ---- what manifests declare ---------------------------------------------------------------------

// The other values of an option. A lifted flag may take any of them here, whatever its declaration computes.
std::vector<Value> others(const Option& option, const Value& now) {
  if (option.type == Option::Type::boolean) return {!now.boolean()};
  if (option.type != Option::Type::choice) return {now.number() * 2};
  std::vector<Value> values;
  for (const std::string& choice : option.choices) {
    if (choice != now.choice()) values.push_back(choice);
  }
  return values;
}

// The sources of specs that differ in one value each. Two equal sources are an error.
class Texts {
 public:
  void add(const KernelSpec& spec, const std::string& what) {
    try {
      const auto [other, is_new] = what_.emplace(unit_of(spec).text, what);
      EXPECT_TRUE(is_new) << what << " has the text of " << other->second;
    } catch (const Error&) {
      ++rejected_;  // not valid on its own
    }
  }
  void expect_more_than(int least) const {
    const int different = static_cast<int>(what_.size());
    EXPECT_GT(different, least);
    EXPECT_LT(rejected_, different);
    ::testing::Test::RecordProperty("texts", different);
    ::testing::Test::RecordProperty("rejected", rejected_);
  }

 private:
  std::map<std::string, std::string> what_;
  int rejected_ = 0;
};

TEST(CacheKeyText, EveryValueOfEveryFlagChangesIt) {
  Texts texts;
  const Catalog& catalog = default_catalog();
  for (const std::string& rule : catalog.names(Manifest::Kind::rule)) {
    const KernelSpec base = with_state(rule, {"fp32"});
    const KernelSpec resolved = resolve(base).spec;
    texts.add(base, rule);
    const auto change_each = [&](const Manifest& manifest, NamedValues KernelSpec::*flags) {
      for (const Option& option : manifest.flags) {
        for (const Value& value : others(option, (resolved.*flags).at(option.name))) {
          KernelSpec spec = base;
          spec.*flags = {{option.name, value}};
          texts.add(spec, str_cat(rule, ": ", option.name, " = ", to_string(value)));
        }
      }
    };
    change_each(catalog.rule(rule), &KernelSpec::flags);
    change_each(catalog.gradient(), &KernelSpec::gradient_flags);
  }
  texts.expect_more_than(20);
}

TEST(CacheKeyText, EveryCodecWithEachOfItsOptionsAndEveryWeightFormatChangesIt) {
  Texts texts;
  const Catalog& catalog = default_catalog();
  for (const std::string& codec : catalog.names(Manifest::Kind::codec)) {
    texts.add(with_state("adamw", {codec}), codec);
    for (const Option& option : catalog.codec(codec).flags) {
      for (const Value& value : others(option, complete({codec}).options.at(option.name))) {
        texts.add(with_state("adamw", {codec, {{option.name, value}}}),
                  str_cat(codec, ": ", option.name, " = ", to_string(value)));
      }
    }
  }
  for (const std::string& weights : catalog.names(Manifest::Kind::weights)) {
    for (const Dtype dtype : catalog.weights(weights).dtypes) {
      KernelSpec spec = with_state("adamw", {"bf16"});
      spec.state.weights = weights;
      spec.state.dtype = spec.gradient = dtype;
      if (weights != "native" || dtype != Dtype::float32)
        texts.add(spec, str_cat(weights, to_string(dtype)));
    }
  }
  texts.expect_more_than(8);
}

TEST(CacheKeyText, NumbersThatAreArgumentsDoNotChangeIt) {
  int tried = 0;
  for (const char* rule : {"sgd", "adam", "adamw", "lamb"}) {
    const auto text_of_options = [&](const OptionValues& options) {
      KernelSpec spec{.rule = rule, .flags = options.flags()};
      spec.gradient_flags = options.gradient_flags();
      spec.state.slots.resize(options.rule().slots.size(), CodecChoice{"fp32"});
      return unit_of(spec).text;
    };
    const OptionValues before{std::string(rule)};
    for (const char* name : {"lr", "weight_decay", "eps", "grad_scale"}) {
      OptionValues options{std::string(rule)};
      const auto names = options.names();
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      options.set(name, 0.25);
      const bool lifted = !(options.flags() == before.flags() &&
                            options.gradient_flags() == before.gradient_flags());
      if (lifted) continue;  // the kernel contains whether it is zero
      EXPECT_EQ(text_of_options(options), text_of_options(before)) << rule << " " << name;
      ++tried;
    }
  }
  EXPECT_GT(tried, 6);
}

}  // namespace
}  // namespace jitstep::jit
