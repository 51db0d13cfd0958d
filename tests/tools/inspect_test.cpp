// `jitstep inspect`, as users run it.
#include <nlohmann/json.hpp>
#include <sstream>

#include "jit/base/process.h"
#include "jit/cache/cache_fixtures.h"
#include "jit/source/source_digests.h"
#include "support/compilers.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using testing::content_of;
using testing::TemporaryFolder;
using Args = std::vector<std::string>;

Finished run(Args args, const Variables& environment = {}) {
  args.insert(args.begin(), "inspect");
  return testing::run_tool(args, environment);
}

std::string shown(const Args& args, const Variables& environment = {}) {
  const Finished result = run(args, environment);
  EXPECT_EQ(result.status, 0) << result.output;
  return result.output;
}

json shown_json(Args args, const Variables& environment = {}) {
  args.push_back("--json");
  return json::parse(shown(args, environment));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

// The output of `jitstep compile` for AdamW in int8. The name of the file that it writes is the kernel's key.
json compiled(const std::string& folder, const std::string& target,
              const Variables& environment = {}) {
  const Finished result = testing::run_tool({"compile", R"({"rule": "adamw", "state": "int8"})",
                                             "--target", target, "--out", folder, "--json"},
                                            environment);
  EXPECT_EQ(result.status, 0) << result.output;
  return json::parse(result.output);
}

const Args kInt8 = {"--state", "int8", "--target", "cpu", "--show"};

Args int8(const std::string& section) {
  Args args = kInt8;
  args.push_back(section);
  return args;
}

TEST(Inspect, SourceIsTheTranslationUnitAndNeedsNoCompiler) {
  const std::string source = shown(int8("source"), {{"JITSTEP_CXX", "/no/compiler"}});
  EXPECT_TRUE(has(source,
                  "#pragma GCC target(\"prefer-vector-width=512\")\n#endif\n"
                  "#define JITSTEP_REAL float\n#include \"rules/adamw.cuh\"\n"));
  EXPECT_TRUE(has(
      source, "config{.threads = 1, .tile_lanes = 1, .vector_elems = 256, .leaves_per_item = 16}"))
      << source;
}

// The bytes of the code. The names of files may differ.
std::string code_of(const std::string& object, const std::string& folder) {
  const std::string out = folder + "/code";
  const Finished run =
      run_program({"/usr/bin/env", "objcopy", "-O", "binary", "--only-section=.text", object, out},
                  "", own_variables());
  EXPECT_EQ(run.status, 0) << run.output;
  return content_of(out);
}

TEST(Inspect, PreprocessedSourceCompilesToTheSameCodeByTheLoggedCommand) {
  TemporaryFolder folder;
  testing::write_file(folder / "flat.cuh", shown(int8("flat"), testing::kPlainCompiler));
  const std::string log = shown(int8("log"), testing::kPlainCompiler);
  const std::string command = log.substr(0, log.find('\n'));
  EXPECT_TRUE(command.starts_with("c++ -x c++ flat.cuh -o kernel.so -std=c++20 ")) << command;
  const Finished made =
      run_program({"/bin/sh", "-c", "cd " + folder.path() + " && " + command}, "", own_variables());
  ASSERT_EQ(made.status, 0) << made.output;
  const std::string own = compiled(folder / "binary", "cpu", testing::kPlainCompiler).at("file");
  const std::string code = code_of(own, folder.path());
  EXPECT_GT(code.size(), 1000u);
  EXPECT_EQ(code_of(folder / "kernel.so", folder.path()), code);
}

TEST(Inspect, AssemblyNamesTheLinesOfTheTemplates) {
  const std::string rule = content_of(JITSTEP_SOURCE_DIR "/templates/rules/adamw.cuh");
  const std::string mark = "# rules/adamw.cuh:";
  for (const std::string& cxx : support::gcc_and_clang()) {
    const std::string assembly = shown(int8("asm"), {{"JITSTEP_CXX", cxx}});
    const std::size_t at = assembly.find(mark);
    ASSERT_NE(at, assembly.npos) << assembly.substr(0, 2000);
    const std::string comment = assembly.substr(at, assembly.find('\n', at) - at);
    const std::size_t colon = comment.find(": ", mark.size());
    std::istringstream lines(rule);
    std::string line;
    for (int i = std::stoi(comment.substr(mark.size())); i > 0; --i) std::getline(lines, line);
    EXPECT_TRUE(has(line, comment.substr(colon + 2))) << comment;
    EXPECT_TRUE(has(assembly, "\njitstep_apply:\n")) << cxx;
    for (const char* part : {".cfi_", "# @", ".Lfunc_"})
      EXPECT_FALSE(has(assembly, part)) << cxx << ": " << part;
  }
}

TEST(Inspect, ResourcesOfTheCpuCountItsVectors) {
  for (const std::string& cxx : support::gcc_and_clang()) {
    const json entries =
        shown_json(int8("resources"), {{"JITSTEP_CXX", cxx}}).at("resources").at("entries");
    EXPECT_EQ(entries.at(0).at("entry"), "jitstep_apply");
    // The loops may be separate functions, because inlining depends on the processor.
    int vectors = 0, instructions = 0;
    for (const json& entry : entries) {
      for (const char* width : {"vector_512", "vector_256", "vector_128"})
        vectors += entry.at(width).get<int>();
      instructions += entry.at("instructions").get<int>();
    }
    EXPECT_GT(vectors, 50) << cxx;
    EXPECT_GT(instructions, vectors) << cxx;
  }
}

TEST(Inspect, TheKeyIsThatOfTheCacheAndItsPartsAreThoseOfTheFile) {
  TemporaryFolder folder;
  const std::string file = compiled(folder / "binary", "cpu").at("file");
  const json key = shown_json(int8("key")).at("key");
  EXPECT_EQ(key.at("key"), testing::fs::path(file).stem().string());
  EXPECT_TRUE(key.at("found").get<std::string>().starts_with("in the cache: ")) << key;
  const std::string rule = content_of(JITSTEP_SOURCE_DIR "/templates/rules/adamw.cuh");
  json found;
  for (const json& part : key.at("templates"))
    if (part.at("part") == "rules/adamw.cuh") found = part;
  EXPECT_EQ(found.at("value"), code_digest(rule).substr(0, 12));
  const std::string text = shown(int8("key"));
  for (const char* part : {"flag amsgrad", "state m", "int8(block=256", "configuration",
                           "-march=native", "Not in the key"})
    EXPECT_TRUE(has(text, part)) << part << "\n" << text;
}

// Computed by hand for float32 with int8 state and a float per 256: reads p, g, m and v, writes all except g.
TEST(Inspect, TheModelCountsTheBytesOfEachLaunch) {
  const json model = shown_json(int8("model")).at("model");
  const double state = 2 * (1 + 4.0 / 256);
  const json launches = {{{"entry", "jitstep_apply"}, {"read", 8 + state}, {"written", 4 + state}}};
  EXPECT_EQ(model.at("launches"), launches);
  EXPECT_FALSE(model.contains("gpu")) << "the model assumes nothing about the CPU";
  const json clipped =
      shown_json({"--target", "cpu", "--show", "model", "--set", "max_grad_norm=1"});
  EXPECT_EQ(clipped.at("model").at("launches").at(0),
            json({{"entry", "jitstep_partials_0"}, {"read", 4.0}, {"written", 0.0}}));
}

// Computed by hand for Adafactor in float32: p and g are 8 bytes. Its third sum reads the means
// of 1024 rows, 4 bytes each.
TEST(Inspect, TheModelCountsTheBytesOfAPassOverEntries) {
  const json model =
      shown_json({"--rule", "adafactor", "--target", "cpu", "--show", "model"}).at("model");
  const double state = 2 * 2 * 1024 * 4.0 / (1024 * 1024);  // rows and columns, in two buffers
  std::vector<double> read;
  for (const json& launch : model.at("launches")) read.push_back(launch.at("read"));
  ASSERT_EQ(read.size(), 4u) << model;
  EXPECT_DOUBLE_EQ(read[0], 8 + state / 2);
  EXPECT_DOUBLE_EQ(read[1], 1024 * 4.0 / (1024 * 1024));
  EXPECT_DOUBLE_EQ(read[2], 8 + state / 2);
  EXPECT_DOUBLE_EQ(read[3], 8 + state / 2);
}

TEST(Inspect, ShowsTheDifferenceToAnotherConfig) {
  const Args args = {"--target", "cpu", "--show", "source,flat", "--diff", "leaves_per_item=32"};
  const std::string difference = shown(args);
  for (const char* line : {"-config   vector_elems 256, leaves_per_item 16",
                           "+config   vector_elems 256, leaves_per_item 32",
                           "+why      given by --diff\n", "---- source\n@@ ", "---- flat\n"})
    EXPECT_TRUE(has(difference, line)) << line << "\n" << difference;
  EXPECT_TRUE(has(shown({"--target", "cpu", "--show", "source", "--diff", "leaves_per_item=16"}),
                  "---- source: the same\n"));
}

TEST(Inspect, AcceptsUserFiles) {
  const json made = shown_json({"--rule", JITSTEP_SOURCE_DIR "/examples/signum.cuh", "--state",
                                JITSTEP_SOURCE_DIR "/examples/linear8.cuh", "--target", "cpu",
                                "--show", "source", "--param", "bfloat16"});
  EXPECT_EQ(made.at("kernel"), "signum_linear8_bfloat16");
  EXPECT_TRUE(has(made.at("source"), "rules/signum.cuh"));
}

TEST(Inspect, ShowsTheResultOfAnEditedSource) {
  TemporaryFolder folder;
  std::string text = shown({"--target", "cpu", "--show", "flat"});
  const std::string kernels = "JITSTEP_ENTRY(jitstep_apply, apply)";
  text.replace(text.rfind(kernels), kernels.size(),
               kernels + "\nextern \"C\" int edited() { return 42; }");
  testing::write_file(folder / "flat.cuh", text);
  const json made =
      shown_json({"--target", "cpu", "--override", folder / "flat.cuh", "--show", "asm,key"});
  EXPECT_EQ(made.at("edited"), true);
  EXPECT_TRUE(has(made.at("asm"), "edited:"));
  EXPECT_EQ(made.at("key").at("constants").at(0).at("because"), "given by --override");
}

TEST(Inspect, ReportsAWeightFormatThatTheDtypeDoesNotSupport) {
  const std::string result =
      shown({"--target", "cpu", "--weights", "split16", "--param", "float32"});
  EXPECT_TRUE(
      has(result, "note     split16 does not support float32 parameters, which stay native"))
      << result;
  EXPECT_FALSE(has(shown({"--target", "cpu"}), "note "));
}

TEST(Inspect, ReportsInvalidCombinationsInOneLine) {
  const std::pair<Args, std::string> wrong[] = {
      {{"--rule", "none"}, "none"},
      {{"--rule", "./none.cuh"}, "cannot load ./none.cuh: No such file or directory"},
      {{"--state", "none"}, "none"},
      {{"--set", "lr"}, "--set \"lr\" has no value"},
      {{"--target", "sm"}, "there is no target \"sm\""},
      {{"--config", "warps=4"}, "--config: there is no \"warps\". Give threads=N, "},
      {{"--config", "vector_elems=much"}, "\"much\" is not a number for vector_elems"},
      {{"--config", "tile_lanes=64"}, "tile_lanes (at most 32)"},
      {{"--show", "ptx", "--target", "cpu"}, "--show ptx is for GPU targets"},
      {{"--show", "asm"}, "--show asm is for --target cpu"},
      {{"--diff", "vector_elems=much"}, "--diff: \"much\" is not a number for vector_elems"},
      {{"--override", JITSTEP_SOURCE_DIR "/examples/signum.cuh"},
       "signum.cuh has no jitstep_apply"},
      {{"--override", "/none"}, "cannot load /none"}};
  for (const auto& [args, part] : wrong) {
    const Finished result = run(args);
    const bool of_a_file = part.find("cannot load") == 0 || part.find("signum.cuh") == 0;
    EXPECT_EQ(result.status, of_a_file ? 1 : 2) << result.output;
    EXPECT_TRUE(result.output.starts_with("jitstep: ") && has(result.output, part))
        << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  }
  EXPECT_EQ(run({"--show", "everything"}).status, 2);
  EXPECT_EQ(run(int8("resources"), {{"JITSTEP_CXX", "/no/compiler"}}).status, 1);
}

// With the environment of a shell that does not know about the build.
TEST(Inspect, FindsNvrtcFromSetupAndFromTheActiveEnvironment) {
  TemporaryFolder folder;
  Variables bare = {{"JITSTEP_CACHE_DIR", folder / "cache"},
                    {"JITSTEP_NVRTC", ""},
                    {"VIRTUAL_ENV", ""},
                    {"CONDA_PREFIX", ""}};
  const std::vector<std::string> installed =
      testing::files_below(JITSTEP_SOURCE_DIR "/.deps/venv/lib", "/libnvrtc.so.13");
  if (installed.empty()) GTEST_SKIP() << "setup has not installed NVRTC";
  const Finished found = run({"--rule", "lion", "--state", "int8"}, bare);
  EXPECT_EQ(found.status, 0) << found.output;
  EXPECT_TRUE(has(found.output, "registers")) << found.output;
  bare[2].second = JITSTEP_SOURCE_DIR "/.deps/venv";
  EXPECT_EQ(run({"--rule", "lion", "--show", "log"}, bare).status, 0);
}

class InspectGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Settings::from_environment().nvrtc.empty()) GTEST_SKIP() << "no NVRTC";
  }
};

TEST_F(InspectGpu, PtxHasTheTargetsArchitecture) {
  const std::string ptx = shown({"--state", "int8", "--target", "sm_80", "--show", "ptx"});
  EXPECT_TRUE(has(ptx, ".target sm_80\n")) << ptx.substr(0, 400);
  EXPECT_TRUE(has(ptx, ".visible .entry jitstep_apply("));
}

// NVVM does not find this itself, because the conversions to bfloat16 are assembly.
TEST_F(InspectGpu, WholeTilesOfKernelsWithAssemblyAreInGlobalMemory) {
  const std::string ptx =
      shown({"--state", "bf16", "--param", "bfloat16", "--target", "sm_90", "--show", "ptx"});
  EXPECT_TRUE(has(ptx, "cvt.rn.bf16.f32"));
  for (const char* access : {"ld", "st"}) {
    EXPECT_TRUE(has(ptx, std::string(access) + ".global.v4.u16")) << access;
    EXPECT_FALSE(has(ptx, std::string(access) + ".v4.u16")) << access;
  }
}

// A multiprocessor of sm_90 has 65536 registers. Warps allocate them in units of 256.
TEST_F(InspectGpu, OccupancyFollowsFromTheRegisters) {
  TemporaryFolder folder;
  const json made = compiled(folder.path(), "sm_90");
  const json entry =
      shown_json({"--state", "int8", "--show", "resources"}).at("resources").at("entries").at(0);
  const int registers = entry.at("registers");
  EXPECT_EQ(registers, made.at("resources").at(0).at("registers"));
  const int of_a_block = (registers + 7) / 8 * 8 * 256, blocks = 65536 / of_a_block;
  EXPECT_EQ(entry.at("blocks"), blocks);
  EXPECT_EQ(entry.at("warps"), 8 * blocks);
  EXPECT_EQ(entry.at("limited_by"), "registers");
  EXPECT_DOUBLE_EQ(entry.at("occupancy"), blocks * 256 / 2048.0);
}

// 3350 GB/s for 20 + 8 bytes: float32 with two float32 slots.
TEST_F(InspectGpu, TheModelGivesTheBandwidthBound) {
  const json model = shown_json({"--show", "model"}).at("model");
  EXPECT_EQ(model.at("gpu"), "H100 SXM");
  EXPECT_DOUBLE_EQ(model.at("parameters_per_second"), 3350e9 / 28);
}

TEST_F(InspectGpu, SassComesFromADisassemblerOrSaysHowToGetOne) {
  TemporaryFolder folder;
  testing::write_file(folder / "nvdisasm", "#!/bin/sh\necho \"SASS of $2\"\n");
  testing::fs::permissions(folder / "nvdisasm", testing::fs::perms::owner_all);
  const Args args = {"--show", "sass"};
  const std::string path = folder.path() + ":" + std::getenv("PATH");
  EXPECT_TRUE(shown(args, {{"PATH", path}}).ends_with("/kernel.cubin\n"));
  testing::write_file(folder / "nvdisasm", "#!/bin/sh\necho broken; exit 3\n");
  testing::fs::permissions(folder / "nvdisasm", testing::fs::perms::owner_all);
  EXPECT_TRUE(has(run(args, {{"PATH", path}}).output, "nvdisasm failed: broken"));
}

}  // namespace
}  // namespace jitstep::jit
