#include "jit/codegen/variant_space.h"

#include <algorithm>

namespace jitstep::jit {
namespace {

std::vector<TunedParameter> cpu_parameters(const Hardware& hardware) {
  const bool avx512 = hardware.architecture.ends_with("avx512");
  std::vector<TunedParameter> parameters = {{"chunk", &Variant::chunk, {4, 16, 64, 256}},
                                            {"unroll", &Variant::unroll, {0, 1}}};
  if (avx512) parameters.push_back({"width", &Variant::width, {0, 256, 512}});
  if (hardware.units > 1) {
    parameters.push_back({"grain", &Variant::grain, {0, 1, 32}});
    parameters.push_back({"workers", &Variant::workers, {0, 1}});
  }
  return parameters;
}

std::vector<TunedParameter> gpu_parameters() {
  return {{"threads", &Variant::threads, {64, 128, 256, 512}},
          {"lanes", &Variant::lanes, {4, 8, 16, 32}},
          {"vector", &Variant::vector, {1, 2, 4, 8, 16}},
          {"chunk", &Variant::chunk, {4, 16, 64}}};
}

void insert(std::vector<int>& values, int value) {
  const auto place = std::lower_bound(values.begin(), values.end(), value);
  if (place == values.end() || *place != value) values.insert(place, value);
}

}  // namespace

VariantSpace variant_space(const Plan& plan, const Hardware& hardware) {
  const bool cpu = hardware.target.kind == Target::Kind::cpu;
  VariantSpace space{plan, hardware.target, cpu ? cpu_parameters(hardware) : gpu_parameters()};
  const Variant usual = default_variant(plan, hardware.target);
  for (TunedParameter& parameter : space.parameters)
    insert(parameter.values, usual.*parameter.field);
  return space;
}

bool VariantSpace::holds(const Variant& variant) const {
  Variant rest = default_variant(plan, target);
  for (const TunedParameter& parameter : parameters) {
    const auto& values = parameter.values;
    if (std::find(values.begin(), values.end(), variant.*parameter.field) == values.end())
      return false;
    rest.*parameter.field = variant.*parameter.field;
  }
  return rest == variant && !variant_problem(plan, variant, target);
}

std::vector<Variant> VariantSpace::all() const {
  const Variant usual = default_variant(plan, target);
  std::vector<Variant> made = {usual};
  for (const TunedParameter& parameter : parameters) {
    std::vector<Variant> more;
    for (const Variant& variant : made)
      for (const int value : parameter.values) {
        more.push_back(variant);
        more.back().*parameter.field = value;
      }
    made = std::move(more);
  }
  std::erase_if(made, [&](const Variant& v) { return variant_problem(plan, v, target); });
  std::rotate(made.begin(), std::find(made.begin(), made.end(), usual),
              std::find(made.begin(), made.end(), usual) + 1);
  return made;
}

std::vector<Variant> VariantSpace::neighbours(const Variant& variant) const {
  std::vector<Variant> near;
  for (const Variant& other : single_changes(variant)) {
    const auto one_place = [&](const TunedParameter& parameter) {
      const auto place = [&](int value) {
        return std::find(parameter.values.begin(), parameter.values.end(), value);
      };
      const auto steps = place(other.*parameter.field) - place(variant.*parameter.field);
      return steps >= -1 && steps <= 1;
    };
    if (std::all_of(parameters.begin(), parameters.end(), one_place)) near.push_back(other);
  }
  return near;
}

std::vector<Variant> VariantSpace::single_changes(const Variant& variant) const {
  std::vector<Variant> changed;
  for (const TunedParameter& parameter : parameters)
    for (const int value : parameter.values) {
      Variant other = variant;
      other.*parameter.field = value;
      if (other != variant && holds(other)) changed.push_back(other);
    }
  return changed;
}

}  // namespace jitstep::jit
