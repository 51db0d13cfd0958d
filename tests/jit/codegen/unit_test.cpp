#include "jit/codegen/unit.h"
#include "jit/base/args.h"
#include "jitstep/jit/plan.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "jit/base/process.h"
#include "jit/fixtures.h"
#include "jit/source/preprocess.h"
#include "jit/user_templates.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using testing::TemporaryFolder;

class UnitTest : public ::testing::Test {
 protected:
  UnitTest() {
    catalog.load_rule(write("everything.cuh", testing::kEverythingText));
    catalog.load_rule(write("remembering.cuh", testing::kRememberingText));
    catalog.load_codec(write("normed.cuh", testing::kNormedText));
  }

  std::string write(const std::string& name, const std::string& content) {
    const std::string path = folder / name;
    std::ofstream(path) << content;
    ::chmod(path.c_str(), 0600);
    return path;
  }

  KernelSpec adamw(const CodecChoice& codec) const {
    return {.rule = "adamw", .state = {{codec, codec, {}}}};
  }

  KernelSpec everything(const CodecChoice& codec) const {
    return {.rule = "everything", .state = {{codec, codec}}};
  }

  std::string problem(const KernelSpec& spec) const {
    try {
      made(spec);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  Unit made(const KernelSpec& spec, const Target& target = Target::cpu()) const {
    const Plan plan = resolve(spec, catalog);
    return unit(plan, default_kernel_config(plan, target), target);
  }

  // The compiler's messages about the unit followed by `more`. Empty if it compiles.
  std::string compiled(const KernelSpec& spec, const Target& target = Target::cpu(),
                       const std::string& more = "") const {
    const Unit unit = made(spec, target);
    const std::string preprocessed = preprocess(unit.text + more, unit.name, store);
    const Settings settings = Settings::from_environment();
    std::string compiler;
    for (const char* name : {"c++", "g++", "clang++"}) {
      if (compiler.empty())
        compiler = find_program(settings.cxx.empty() ? name : settings.cxx, settings.path);
    }
    std::vector<std::string> arguments = {compiler, "-std=c++20", "-fsyntax-only",
                                          "-x",     "c++",        "-"};
    if (target.kind == Target::Kind::emulated)
      arguments.insert(arguments.begin() + 1, "-DJITSTEP_EMULATION");
    const Finished finished = run_program(arguments, preprocessed, own_variables());
    return finished.status == 0 ? "" : finished.output + unit.text;
  }

  using NamedNumbers = std::vector<std::pair<std::string, int>>;

  // Static assertions that the host's plan agrees with what the compiler reads in the rule's file.
  std::string plan_asserts(const KernelSpec& spec) const {
    std::string out;
    const Plan plan = resolve(spec, catalog);
    const auto all_equal = [&](const std::string& type, const NamedNumbers& numbers) {
      for (const auto& [what, value] : numbers)
        out += str_cat("static_assert(", what, "(", type, ") == ", value, ");\n");
    };
    const std::string asked =
        "#define DOMAIN(...) __VA_ARGS__::Domain::reduction_layout\n#define TERMS(...) "
        "__VA_ARGS__::terms\n"
        "#define BYTES(...) sizeof(__VA_ARGS__::Coefficients)\n"
        "#define VALUE(...) sizeof(__VA_ARGS__::Value)\n"
        "#define OVER(...) __VA_ARGS__::Type::Over::Domain::reduction_layout\n";
    for (const auto& r : plan.reductions) {
      if (!r.active()) continue;
      const std::string type = str_cat("jitstep::At<", r.number, ", UnitSpec::Reductions>::type");
      all_equal(type, {{"DOMAIN", r.domain.reduction_layout()},
                       {"TERMS", r.terms},
                       {"BYTES", r.coefficient_bytes}});
      if (r.has_source) all_equal(type, {{"OVER", r.source_domain.reduction_layout()}});
    }
    for (const auto& m : plan.aux_state)
      all_equal(str_cat("jitstep::At<", m.number, ", UnitSpec::AuxFields>::type"),
                {{"DOMAIN", m.domain.reduction_layout()}, {"VALUE", m.bytes}});
    return asked + out;
  }

  std::vector<int> passes(const KernelSpec& spec) const {
    std::vector<int> out;
    for (const auto& r : resolve(spec, catalog).reductions) out.push_back(r.pass);
    return out;
  }

  TemplateStore store;
  Catalog catalog{store};
  TemporaryFolder folder;
};

TEST_F(UnitTest, IsReadable) {
  const KernelSpec spec = adamw({"int8"});
  const Unit made = UnitTest::made(spec);
  EXPECT_EQ(made.name, "adamw_int8_float32");
  EXPECT_TRUE(made.index.partials.empty());
  EXPECT_EQ(made.entries, std::vector<std::string>{"jitstep_apply"});
  for (const char* part :
       {"#define JITSTEP_REAL float\n", "#include \"rules/adamw.cuh\"\n",
        "#include \"codecs/int8.cuh\"\n",
        "Flags{.amsgrad = false, .decay = jitstep::rules::adamw::Decay::before, ",
        "Options{.block = 256, .positive_floor = true, .signed_scale = false, .stochastic = false}",
        "jitstep::Absent",
        "config{.threads = 1, .tile_lanes = 1, .vector_elems = 256, .leaves_per_item = 16}",
        "using Kernel = jitstep::Step<UnitSpec, 0>;\n",
        "\nstruct UnitSlots {\n  jitstep_Slot m;\n  jitstep_Slot v;\n  jitstep_Slot vmax;\n};\n",
        "jitstep::may_read(jitstep_pass, -1, false, 0, 0)>::type clip;\n};\n",
        "static_assert(jitstep::HasDecode<UnitSpec::Codec<1>>, \"codecs/int8.cuh needs 'static "
        "real",
        "static_assert(UnitCheck::read_bodies<>());\nJITSTEP_ENTRY(jitstep_apply, apply)\n"}) {
    EXPECT_NE(made.text.find(part), std::string::npos) << part << "\nin\n" << made.text;
  }
}

TEST_F(UnitTest, OfShippedRulesCompiles) {
  KernelSpec amsgrad{
      .rule = "adamw",
      .flags = {{"amsgrad", true}, {"decay", "after"}},
      .state = {{CodecChoice{"int8", {{"block", 64}}}, CodecChoice{"int4"}, CodecChoice{"bf16"}},
                "stochastic",
                Dtype::bfloat16},
      .gradient = Dtype::float16};
  EXPECT_EQ(compiled(amsgrad), "");
  EXPECT_EQ(compiled(amsgrad, Target::emulated()), "");
  KernelSpec sgd{.rule = "sgd",
                 .state = {.slots = {std::nullopt}, .dtype = Dtype::float64},
                 .gradient = Dtype::float64};
  EXPECT_EQ(compiled(sgd), "");
  const KernelSpec lamb{.rule = "lamb",
                        .gradient_flags = {{"clipped", true}, {"centralized", true}},
                        .state = {{CodecChoice{"int4"}, CodecChoice{"fp32"}}},
                        .strided = true};
  EXPECT_EQ(compiled(lamb, Target::cpu(), plan_asserts(lamb)), "");
}

TEST_F(UnitTest, IncludesTheLoopsOfTheCpuForDenseTensorsOnTheCpuOnly) {
  const auto has_loops = [&](const KernelSpec& spec, const Target& target) {
    const Unit unit = made(spec, target);
    Texts included;
    preprocess(unit.text, unit.name, store, included);
    EXPECT_TRUE(included.contains("kernel/tile/traversal.cuh"));
    return std::any_of(included.begin(), included.end(),
                       [](const auto& text) { return text.first.starts_with("kernel/loop/"); });
  };
  const KernelSpec dense = adamw({"int8"});
  KernelSpec strided = dense;
  strided.strided = true;
  EXPECT_TRUE(has_loops(dense, Target::cpu()));
  EXPECT_FALSE(has_loops(strided, Target::cpu()));
  EXPECT_FALSE(has_loops(dense, Target::cuda(90)));
  EXPECT_FALSE(has_loops(dense, Target::emulated()));
}

TEST_F(UnitTest, OfAUsersRuleAndCodecCompilesWithTheHostsNumbering) {
  const KernelSpec spec = everything({"fp32"});
  EXPECT_EQ(compiled(spec, Target::cpu(), plan_asserts(spec)), "");
  EXPECT_EQ(compiled(spec, Target::emulated()), "");
  KernelSpec remembering{.rule = "remembering", .state = {{CodecChoice{"normed"}}}};
  EXPECT_EQ(passes(remembering), (std::vector<int>{-1, -1, 0, 1}));
  EXPECT_EQ(resolve(remembering, catalog).aux_state.size(), 2u);
  EXPECT_EQ(compiled(remembering, Target::cpu(), plan_asserts(remembering)), "");
  EXPECT_EQ(compiled(remembering, Target::emulated()), "");
  KernelSpec other = everything({"fp32"});
  other.gradient_flags = {{"centralized", true}};
  other.flags = {{"last", false}, {"form", "plain"}};
  other.state.dtype = Dtype::float64;
  EXPECT_EQ(compiled(other, Target::cpu(), plan_asserts(other)), "");
}

TEST_F(UnitTest, ComputesReductionsInTheirPasses) {
  const KernelSpec spec{.rule = "lamb", .state = {{CodecChoice{"fp32"}, CodecChoice{"fp32"}}}};
  EXPECT_EQ(passes(spec), (std::vector<int>{-1, -1, 0}));
  KernelSpec clipped = spec;
  clipped.gradient_flags = {{"clipped", true}};
  EXPECT_EQ(passes(clipped), (std::vector<int>{-1, 0, 1}));
  // mean, clip | row, column, bias, global, matrix over row, rms after matrix
  EXPECT_EQ(passes(everything({"fp32"})), (std::vector<int>{-1, -1, 0, 0, 0, 0, 1, 2}));
  KernelSpec centralized = everything({"fp32"});
  centralized.gradient_flags = {{"centralized", true}};
  EXPECT_EQ(passes(centralized), (std::vector<int>{0, -1, 1, 1, 1, 1, 2, 3}));
  KernelSpec shorter = everything({"fp32"});
  shorter.flags = {{"last", false}};
  EXPECT_EQ(passes(shorter), (std::vector<int>{-1, -1, 0, -1, 0, 0, 1, -1}));
}

TEST_F(UnitTest, ComputesACodecsReductionsOnceTheNewSlotsAreKnown) {
  KernelSpec sgd{.rule = "sgd",
                 .flags = {{"has_momentum", true}, {"capped", true}},
                 .state = {{CodecChoice{"normed"}}}};
  EXPECT_EQ(passes(sgd), (std::vector<int>{-1, -1, 0, 0}));
  sgd.gradient_flags = {{"clipped", true}};
  EXPECT_EQ(passes(sgd), (std::vector<int>{-1, 0, 1, 1}));
  EXPECT_EQ(compiled(sgd, Target::cpu(), plan_asserts(sgd)), "");
  const auto all = resolve({.rule = "everything",
                            .flags = {{"form", "plain"}},
                            .state = {{std::nullopt, CodecChoice{"fp32"}}}},
                           catalog)
                       .reductions;
  EXPECT_EQ(all.size(), 8u);
}

TEST_F(UnitTest, NumbersReductionsOverEntries) {
  const auto all = resolve(everything({"fp32"}), catalog).reductions;
  ASSERT_EQ(all.size(), 8u);
  EXPECT_EQ(all[6].name, "matrix");
  EXPECT_EQ(all[6].reduction_layout, kNestedLayout);
  EXPECT_EQ(all[6].source_number, 0);
  EXPECT_EQ(all[2].number, 0);
  EXPECT_EQ(to_string(all[6].source_domain), "rows");
  EXPECT_EQ(all[5].coefficient_bytes, 16);
  EXPECT_TRUE(all[5].is_global);
}

TEST_F(UnitTest, RejectsInvalidSpecs) {
  EXPECT_EQ(problem({.rule = "adamw"}), "adamw has 3 slots (m, v, vmax), but the spec lists 0");
  EXPECT_EQ(problem({.rule = "adamw", .state = {{CodecChoice{"fp32"}, {}, {}}}}),
            "adamw: the slot v has no codec. Set one in StateFormat::slots, such as fp32.");
  KernelSpec spec = adamw({"fp32"});
  spec.state.weights = "stochastic";
  EXPECT_EQ(problem(spec),
            "the weight format \"stochastic\" is for bfloat16 parameters, not float32");
  spec = adamw({"int8", {{"block", 100}}});
  EXPECT_EQ(problem(spec), "int8: block is 100 and must be a power of two in [32, 1024]");
  spec = adamw({"int8", {{"blocks", 128}}});
  EXPECT_EQ(problem(spec),
            "int8 has no option \"blocks\" (did you mean \"block\"?). Options: block, "
            "positive_floor, signed_scale, stochastic");
  spec = adamw({"fp32"});
  spec.flags = {{"amsgrad", 1}};
  EXPECT_EQ(problem(spec), "adamw: amsgrad expects true or false, not 1");
  spec.flags = {{"nesterov", true}};
  EXPECT_EQ(problem(spec),
            "adamw has no flag \"nesterov\". Flags: amsgrad, decay, caution, "
            "corrected_weight_decay, clipped");
}

TEST_F(UnitTest, CompletedSpecsOfTheSameKernelAreEqual) {
  KernelSpec spelled = adamw({"int8", {{"block", 256}, {"positive_floor", true}}});
  spelled.flags = {{"amsgrad", false}};
  spelled.state.slots[2] = CodecChoice{"int8"};  // not stored without amsgrad
  EXPECT_NE(spelled, adamw({"int8"}));
  EXPECT_EQ(resolve(spelled, catalog).spec, resolve(adamw({"int8"}), catalog).spec);
  EXPECT_EQ(to_string(resolve(adamw({"fp32"}), catalog).spec),
            "adamw(amsgrad=false, caution=false, clipped=false, corrected_weight_decay=false, "
            "decay=before) "
            "gradient(centralized=false, clipped=false, "
            "maximize=false, "
            "scaled=false) state[fp32, fp32, -] native float32 gradients float32");
}

TEST_F(UnitTest, RunsWithAConfigThatFitsTheFormats) {
  const Plan fp32 = resolve(adamw({"fp32"}), catalog);
  EXPECT_EQ(default_kernel_config(fp32, Target::cpu()).vector_elems, 256);
  const KernelConfig gpu = default_kernel_config(fp32, Target::cuda(90));
  EXPECT_EQ(gpu.threads, 256);
  EXPECT_EQ(gpu.vector_elems, 4);
  const Plan small = resolve(adamw({"int8", {{"block", 32}}}), catalog);
  EXPECT_EQ(default_kernel_config(small, Target::cpu()).vector_elems, 32);
  KernelSpec rounding = adamw({"int8", {{"block", 1024}}});
  rounding.state.dtype = Dtype::bfloat16;
  rounding.state.weights = "stochastic";
  const Plan random = resolve(rounding, catalog);
  EXPECT_EQ(default_kernel_config(random, Target::cuda(90)).vector_elems, 8);
  EXPECT_THROW(unit(small, {1, 1, 64, 16}, Target::cpu()), Error);
  EXPECT_THROW(unit(small, {256, 32, 4, 16}, Target::cpu()), Error);
  EXPECT_THROW(unit(small, {256, 32, 16, 16}, Target::cuda(90)), Error);
  EXPECT_THROW(unit(random, {256, 32, 4, 2}, Target::cuda(90)), Error);
}

// A pragma before the first function. The compilers of other processors skip it.
TEST_F(UnitTest, OfBFloat16ParametersPrefersVectorsOfTheirRoundingInstructions) {
  const auto prefers = [&](Dtype dtype, const Target& target) {
    KernelSpec spec = adamw({"fp32"});
    spec.state.dtype = spec.gradient = dtype;
    const std::string text = made(spec, target).text;
    return text.substr(0, text.find("#include")).find("__AVX512BF16__") != text.npos;
  };
  EXPECT_TRUE(prefers(Dtype::bfloat16, Target::cpu()));
  EXPECT_FALSE(prefers(Dtype::float32, Target::cpu()));
  EXPECT_FALSE(prefers(Dtype::bfloat16, Target::cuda(90)));
}

}  // namespace
}  // namespace jitstep::jit
