#include "support/bit_cases.h"

#include <algorithm>
#include <cctype>

#include "support/bits.h"
#include "support/combinations.h"

namespace jitstep::support {
namespace {

using jit::Dtype;

StepCase combination(jit::KernelSpec spec) {
  jit::NamedValues options;
  if (spec.rule == "sgd") options = {{"momentum", 0.9}, {"nesterov", true}};
  for (auto& slot : spec.state.slots)
    if (!slot) slot = jit::CodecChoice{"fp32"};
  return {.spec = spec, .options = options, .tensors = odd_tensors()};
}

// Lanes share the metadata of a codec.
bool is_coded(const jit::KernelSpec& spec) {
  const auto& slots = spec.state.slots;
  return std::any_of(slots.begin(), slots.end(),
                     [](const auto& slot) { return slot && slot->name != "fp32"; });
}

std::vector<BitCase> combinations() {
  std::vector<BitCase> cases;
  for (const auto& spec : ci_combinations()) {
    std::string name = "Combination_" + jit::resolve(spec).name;
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    cases.push_back({name + "_" + std::to_string(cases.size()),
                     [spec] { return std::vector{combination(spec)}; }, is_coded(spec) ? 2u : 1u});
  }
  return cases;
}

std::vector<StepCase> sums_over_every_tensor() {
  return {{.spec = spec_of("adamw", "int8", "native", Dtype::float32, Dtype::bfloat16),
           .options = {{"max_grad_norm", 0.5},
                       {"centralization", 0.3},
                       {"maximize", true},
                       {"amsgrad", true}},
           .tensors = odd_tensors()}};
}

// Gradients with another dtype than the parameter.
std::vector<StepCase> gradients_of_their_own() {
  std::vector<StepCase> cases;
  for (const auto& [parameter, gradient] : {std::pair{Dtype::float32, Dtype::float16},
                                            {Dtype::bfloat16, Dtype::float32},
                                            {Dtype::float16, Dtype::float32},
                                            {Dtype::float64, Dtype::float32}})
    cases.push_back({.spec = spec_of("adamw", "int8", "native", parameter, gradient),
                     .options = {{"max_grad_norm", 0.5}},
                     .tensors = odd_tensors()});
  return cases;
}

// Steps that the device skips, with a scale on the device, and with gradients that the step clears.
std::vector<StepCase> skipped_scaled_and_cleared() {
  std::vector<StepCase> cases;
  for (const char* rule : {"lamb", "prodigy"})
    cases.push_back({.spec = spec_of(rule, "int8", "stochastic", Dtype::bfloat16, Dtype::bfloat16),
                     .options = {{"max_grad_norm", 0.5}},
                     .tensors = odd_tensors(),
                     .refused = {1, 3, 4},
                     .grad_scale = 48,
                     .clears = true});
  return cases;
}

enum class Blocks { smallest, between, largest };

std::vector<StepCase> of_blocks(Blocks blocks) {
  using Kind = jit::Manifest::Kind;
  const jit::Catalog& catalog = jit::default_catalog();
  constexpr int kBetween[] = {64, 256, 512};  // each codec has one of these sizes, cyclically
  std::vector<StepCase> cases;
  int next = 0;
  for (const auto& codec : catalog.names(Kind::codec)) {
    if (catalog.codec(codec).find("block") == nullptr) continue;
    const int sizes[] = {32, kBetween[next++ % 3], 1024};
    jit::KernelSpec spec = spec_of("adamw", codec);
    for (auto& slot : spec.state.slots)
      slot->options["block"] = sizes[static_cast<std::size_t>(blocks)];
    cases.push_back({.spec = spec, .options = {}, .tensors = odd_tensors()});
  }
  return cases;
}

std::vector<TensorCase> strided_and_gapped() {
  return {
      {.sizes = {37, 29}, .transposed = true},
      {.sizes = {37, 29}, .grad_transposed = true},
      {.sizes = {2, 13, 57}, .transposed = true, .grad_transposed = true, .gaps = true},
      {.sizes = {300}, .misalignment = 1, .gaps = true},
  };
}

std::vector<StepCase> strided_and_gapped_tensors() {
  std::vector<StepCase> cases;
  for (const char* codec : {"fp32", "int4"})
    cases.push_back({.spec = spec_of("lamb", codec),
                     .options = {{"centralization", 1.0}},
                     .tensors = strided_and_gapped()});
  return cases;
}

std::vector<StepCase> values_that_are_not_finite() {
  std::vector<StepCase> cases;
  for (const auto& codec : jit::default_catalog().names(jit::Manifest::Kind::codec))
    cases.push_back({.spec = spec_of("adamw", codec),
                     .options = {},
                     .tensors = odd_tensors(),
                     .special_values = true});
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16})  // the contract defines their NaN
    cases.push_back({.spec = spec_of("adamw", "fp32", "native", dtype),
                     .options = {},
                     .tensors = odd_tensors(),
                     .special_values = true});
  return cases;
}

// Every domain but `all`: tensors of several leaves with incomplete ends, of one to four dimensions.
std::vector<TensorCase> many_domains() {
  return {{.sizes = {}},
          {.sizes = {1}},
          {.sizes = {517}},
          {.sizes = {3, 700}},
          {.sizes = {700, 3}},
          {.sizes = {0, 5}},
          {.sizes = {4, 19, 23}},
          {.sizes = {2, 3, 17, 5}},
          {.sizes = {31, 40}, .transposed = true},
          {.sizes = {9, 33}, .first_step = 2}};
}

StepCase of_many_domains(const std::string& rule, const std::string& codec,
                         const jit::NamedValues& options = {}) {
  return {.spec = spec_of(rule, codec), .options = options, .tensors = many_domains()};
}

// A rule with modes in every codec and weight format.
std::vector<StepCase> both_modes() {
  using Kind = jit::Manifest::Kind;
  std::vector<StepCase> cases;
  const auto add = [&](const jit::KernelSpec& spec) {
    cases.push_back({.spec = spec, .options = {}, .tensors = odd_tensors()});
  };
  const jit::Catalog& catalog = jit::default_catalog();
  for (const auto& codec : catalog.names(Kind::codec)) add(spec_of("averaged_iterate", codec));
  for (const auto& weights : catalog.names(Kind::weights))
    for (const Dtype dtype : catalog.weights(weights).dtypes)
      add(spec_of("averaged_iterate", "int8", weights, dtype, dtype));
  cases.push_back({.spec = spec_of("averaged_iterate", "int4"),
                   .options = {},
                   .tensors = strided_and_gapped()});
  return cases;
}

// A rule with a host transform in every codec, with several dtypes and layouts.
std::vector<StepCase> transformed() {
  std::vector<StepCase> cases;
  for (const auto& codec : jit::default_catalog().names(jit::Manifest::Kind::codec))
    cases.push_back({.spec = spec_of("staged_momentum", codec),
                     .options = {{"max_grad_norm", 0.5}},
                     .tensors = odd_tensors()});
  for (const Dtype dtype : {Dtype::float64, Dtype::bfloat16})
    cases.push_back({.spec = spec_of("staged_momentum", "fp32", "native", dtype, dtype),
                     .options = {},
                     .tensors = odd_tensors()});
  cases.push_back(
      {.spec = spec_of("staged_momentum", "int4"), .options = {}, .tensors = strided_and_gapped()});
  return cases;
}

// A rule with sums, auxiliary state and a slot after a host transform. `factored` has sums of its own there.
std::vector<StepCase> after_transform() {
  return {{.spec = spec_of("late_moments", "factored"),
           .options = {{"max_grad_norm", 0.5}},
           .tensors = odd_tensors()},
          {.spec = spec_of("late_moments", "int8"), .options = {}, .tensors = strided_and_gapped()},
          of_many_domains("late_moments", "int8")};
}

// A case of the test extensions, which it loads first.
BitCase extension(const std::string& name, const std::function<std::vector<StepCase>()>& make,
                  std::size_t ways = 2) {
  return {name,
          [make] {
            load_test_extensions();
            return make();
          },
          ways};
}

}  // namespace

std::vector<BitCase> bit_cases() {
  std::vector<BitCase> cases = combinations();
  cases.push_back({"SumsOverEveryTensor", sums_over_every_tensor, kEmulatedWays});
  cases.push_back({"SmallestBlocks", [] { return of_blocks(Blocks::smallest); }});
  cases.push_back({"BlocksBetween", [] { return of_blocks(Blocks::between); }});
  cases.push_back({"LargestBlocks", [] { return of_blocks(Blocks::largest); }});
  cases.push_back({"GradientsOfTheirOwnDtype", gradients_of_their_own});
  cases.push_back({"SkippedScaledAndCleared", skipped_scaled_and_cleared});
  cases.push_back({"StridedAndGappedTensors", strided_and_gapped_tensors, kEmulatedWays});
  cases.push_back({"ValuesThatAreNotFinite", values_that_are_not_finite});
  return cases;
}

std::vector<BitCase> by_rule(std::vector<StepCase> (*cases)(), std::size_t stride) {
  const auto of_rule = [cases, stride](const std::string& rule) {
    std::vector<StepCase> some = cases();
    std::size_t of_this = 0;
    std::erase_if(
        some, [&](const StepCase& c) { return c.spec.rule != rule || of_this++ % stride != 0; });
    for (StepCase& c : some)
      c.tensors = {{.sizes = {4097}},
                   {.sizes = {255}, .misalignment = 1},
                   {.sizes = {0}},
                   {.sizes = {7, 131}, .first_step = 2},
                   {.sizes = {3, 5, 41}}};
    return some;
  };
  std::vector<BitCase> all;
  for (const auto& rule : jit::default_catalog().names(jit::Manifest::Kind::rule))
    all.push_back({rule, [=] { return of_rule(rule); }});
  return all;
}

std::vector<BitCase> extension_bit_cases() {
  using Cases = std::vector<StepCase>;
  return {
      extension("RowsColumnsAndEntriesOfMatrices",
                [] { return Cases{of_many_domains("factored_moment", "")}; }),
      extension("ChainsOfEntriesAndOfSumsOverEverything",
                [] { return Cases{of_many_domains("chained_entries", "")}; }),
      extension("AChainOfSumsWithAuxStatePerTensor",
                [] {
                  return Cases{of_many_domains("layer_norms", "fp32", {{"smooth", true}}),
                               of_many_domains("layer_norms", "int4", {{"smooth", true}})};
                }),
      extension(
          "SharedStateAndConditionalAuxState",
          [] {
            std::vector<TensorCase> late = many_domains();
            late.front().first_step = 3;  // another tensor writes shared state before
            const StepCase slow = of_many_domains("common_estimate", "fp32", {{"slow", true}});
            return Cases{slow,
                         of_many_domains("common_estimate", "int8"),
                         {.spec = slow.spec, .options = {}, .tensors = late, .steps = 5}};
          }),
      extension("ARuleThatReadsElementNumbers",
                [] {
                  return Cases{of_many_domains("numbered_elements", "int8"),
                               {.spec = spec_of("numbered_elements", "fp32"),
                                .options = {},
                                .tensors = strided_and_gapped()}};
                }),
      extension("AFormForOrdinaryOperandsBesideResultsPerRow",
                [] {
                  return Cases{of_many_domains("scaled_rows", "fp32"),
                               of_many_domains("scaled_rows", "int8")};
                }),
      extension("CodecsWithATable",
                [] {
                  Cases cases;
                  for (const char* codec : {"nf4", "table4"})
                    for (const int block : {64, 128, 256}) {
                      cases.push_back(of_many_domains("adamw", codec));
                      for (auto& slot : cases.back().spec.state.slots)
                        slot->options["block"] = block;
                    }
                  return cases;
                }),
      extension("ACodecWithASumOverTheTensor",
                [] {
                  return Cases{of_many_domains("adamw", "tensor_scale8"),
                               of_many_domains("lamb", "tensor_scale8"),
                               of_many_domains("layer_norms", "tensor_scale8")};
                }),
      extension("ACodecWithMaximaAlongAxesAndRandomBits",
                [] {
                  return Cases{of_many_domains("sgd", "axis_maxima8", {{"momentum", 0.9}})};
                }),
      extension("ElementaryFunctions",
                [] {
                  StepCase special = of_many_domains("elementary_functions", "fp32");
                  special.special_values = true;
                  return Cases{of_many_domains("elementary_functions", "int8"), special};
                }),
      extension("AWeightFormatWithAResidual",
                [] {
                  return Cases{{.spec = spec_of("adamw", "int8", "master32", Dtype::bfloat16,
                                                Dtype::bfloat16),
                                .options = {},
                                .tensors = odd_tensors()}};
                }),
      extension("ARuleWithModes",
                [] { return Cases{of_many_domains("averaged_iterate", "int8")}; }),
      extension("SumsAndStateAfterAHostTransform", after_transform),
  };
}

std::vector<BitCase> large_bit_cases() {
  return {extension("ARuleWithModesInCodecsAndEveryWeightFormat", both_modes, 1),
          extension("ARuleWithAHostTransformInCodecs", transformed, 1)};
}

}  // namespace jitstep::support
