#include "jit/compiler/nvrtc_compiler.h"

#include "jit/compiler/resource_report.h"
#include "jit/engine/module.h"
#include "jit/fixtures.h"
#include "jit/source/preprocess.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

namespace fs = testing::fs;
using testing::error_of;

// sinf is in libnvrtc-builtins. NVRTC finds that library only if the program opened it first.
constexpr char kUnit[] =
    "#line 1 \"rules/x.cuh\"\n"
    "extern \"C\" __global__ void step(float* p) { p[threadIdx.x] = sinf(p[threadIdx.x]); }\n"
    "extern \"C\" __global__ void sum(float* p) {\n"
    "  __shared__ float s[64];\n"
    "  s[threadIdx.x] = p[threadIdx.x];\n"
    "  __syncthreads();\n"
    "  p[threadIdx.x] = s[63 - threadIdx.x];\n"
    "}\n";

constexpr char kSpilling[] =
    "extern \"C\" __global__ void __launch_bounds__(1024, 2) spill(float* p, int n) {\n"
    "  float a[128];\n"
    "  for (int i = 0; i < 128; ++i) a[i] = p[i * n];\n"
    "  for (int k = 0; k < n; ++k)\n"
    "    for (int i = 0; i < 128; ++i) a[i] = a[i] * a[(i + 7) % 128] + p[k];\n"
    "  for (int i = 0; i < 128; ++i) p[i * n] = a[i];\n"
    "}\n";

// One compiler for all tests, because NVRTC is large. Without NVRTC the test fails with its message.
NvrtcCompiler& nvrtc() {
  static NvrtcCompiler compiler(testing::settings_with_nvrtc(""));
  return compiler;
}

TEST(Nvrtc, FiveArchitecturesCompileWithTheirResources) {
  for (int sm : {80, 89, 90, 100, 120}) {
    const Binary binary = nvrtc().compile(kUnit, "unit", Target::cuda(sm));
    EXPECT_NO_THROW(check_image(binary.image, "unit", Target::cuda(sm))) << sm;
    EXPECT_THROW(check_image(binary.image, "unit", Target::cuda(sm + 1)), ImageError) << sm;
    EXPECT_THROW(check_image(binary.image, "unit", Target::cpu()), ImageError) << sm;
    ASSERT_EQ(binary.resources.size(), 2u) << binary.log;
    EXPECT_EQ(binary.resources[0].entry, "step");
    EXPECT_EQ(binary.resources[1].entry, "sum");
    EXPECT_GT(binary.resources[0].registers, 4);
    EXPECT_EQ(binary.resources[0].spill_store_bytes, 0);
    EXPECT_EQ(binary.resources[1].shared_bytes, 256);
  }
}

TEST(Nvrtc, ReportsSpills) {
  const Binary binary = nvrtc().compile(kSpilling, "unit", Target::cuda(90));
  ASSERT_EQ(binary.resources.size(), 1u) << binary.log;
  EXPECT_EQ(binary.resources[0].registers, 32);
  EXPECT_GT(binary.resources[0].spill_store_bytes, 0) << binary.log;
  EXPECT_GT(binary.resources[0].spill_load_bytes, 0) << binary.log;
  EXPECT_GT(binary.resources[0].stack_bytes, 0) << binary.log;
}

TEST(Nvrtc, TheSameTextGivesTheSameBinary) {
  const Binary first = nvrtc().compile(kUnit, "one", Target::cuda(90));
  EXPECT_EQ(first.image, nvrtc().compile(kUnit, "two", Target::cuda(90)).image);
}

TEST(Nvrtc, AnErrorHasTheLogAndTheNumberedLinesOfTheTemplate) {
  TemplateStore store("", false);
  store.add("rules/bad.cuh", "int first;\nint second = nothing;\nint third;\n");
  const std::string preprocessed = preprocess("#include \"rules/bad.cuh\"\n", "unit", store);
  try {
    nvrtc().compile(preprocessed, "my unit", Target::cuda(90));
    FAIL() << "nothing was thrown";
  } catch (const CompileError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("my unit for sm_90"), std::string::npos) << message;
    EXPECT_NE(message.find(">   2 | int second = nothing;"), std::string::npos) << message;
    EXPECT_NE(error.log().find("rules/bad.cuh(2): error"), std::string::npos) << error.log();
    EXPECT_NE(error.source().find("    3 | int third;"), std::string::npos) << error.source();
  }
}

TEST(Nvrtc, AStaticArrayTooLargeForTheGpuIsACompileError) {
  const char* unit =
      "extern \"C\" __global__ void k(float* p) { __shared__ float s[20000];"
      " s[threadIdx.x] = p[0]; __syncthreads(); p[threadIdx.x] = s[5]; }";
  EXPECT_THROW(nvrtc().compile(unit, "unit", Target::cuda(80)), CompileError);
}

TEST(Nvrtc, AMissingReturnStatementIsACompileError) {
  const char* unit =
      "__device__ int f(int x) { if (x) return 1; } "
      "extern \"C\" __global__ void k(int* p) { p[0] = f(p[1]); }";
  EXPECT_THROW(nvrtc().compile(unit, "unit", Target::cuda(90)), CompileError);
}

TEST(Nvrtc, AGpuNewerThanNvrtcGetsPtx) {
  const Binary binary = nvrtc().compile(kUnit, "unit", Target::cuda(990));
  ASSERT_FALSE(binary.image.empty());
  EXPECT_EQ(static_cast<char>(binary.image.front()), '/') << "PTX is text";
  EXPECT_EQ(binary.image.back(), std::byte{0});
  EXPECT_NO_THROW(check_image(binary.image, "unit", Target::cuda(990)));
  EXPECT_NE(nvrtc().identity(Target::cuda(990)).find("compute_"), std::string::npos);
}

TEST(Nvrtc, AnArchitectureIsExactOrTheNewestOlderOneOrAnError) {
  NvrtcLibrary library;
  library.major = 13;
  library.archs = {75, 80, 90};
  EXPECT_EQ(architecture_option(library, Target::cuda(80)), "sm_80");
  EXPECT_EQ(architecture_option(library, Target::cuda(86)), "compute_80");
  EXPECT_EQ(architecture_option(library, Target::cuda(100)), "compute_90");
  EXPECT_THROW(architecture_option(library, Target::cuda(70)), ToolchainError);
  const std::string message = error_of([&] { architecture_option(library, Target::cuda(70)); });
  for (const char* part : {"NVRTC 13.0", "sm_70", "sm_75, sm_80, sm_90"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(Nvrtc, IdentityHoldsVersionBuildAndOptionsButNoPath) {
  const std::string identity = nvrtc().identity(Target::cuda(90));
  for (const char* part : {"NVRTC 1", "Build ID", "sm_90", "--fmad=false", "--ptxas-options=-v"}) {
    EXPECT_NE(identity.find(part), std::string::npos) << identity;
  }
  EXPECT_EQ(identity.find('/'), std::string::npos) << identity;
  EXPECT_NE(identity, nvrtc().identity(Target::cuda(80)));
}

TEST(Nvrtc, AWrongFolderIsNamedWithThePackageToInstall) {
  testing::TemporaryFolder folder;
  Settings settings;
  settings.nvrtc = folder.path();
  const std::string message = error_of([&] { NvrtcCompiler(settings).identity(Target::cuda(90)); });
  for (const std::string& part : {folder.path(), std::string("JITSTEP_NVRTC"),
                                  std::string("pip install nvidia-cuda-nvrtc")}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  testing::write_file(folder / "libnvrtc.so.13", "no library");
  EXPECT_NE(
      error_of([&] { NvrtcCompiler(settings).identity(Target::cuda(90)); }).find("libnvrtc.so.13"),
      std::string::npos);
  EXPECT_THROW(NvrtcCompiler(settings).identity(Target::cuda(90)), ToolchainError);
}

TEST(Nvrtc, SearchesPipsFolders) {
  testing::TemporaryFolder folder;
  testing::write_file(folder / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "");
  testing::write_file(folder / "nvidia/cu13/lib/libnvrtc.so.13", "");
  testing::write_file(folder / "lib64/libnvrtc.so", "");
  EXPECT_EQ(nvrtc_files(folder.path()),
            (std::vector<std::string>{folder / "nvidia/cu13/lib/libnvrtc.so.13",
                                      folder / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
                                      folder / "lib64/libnvrtc.so"}));
}

TEST(ResourceReport, FunctionsThatAreNotInlinedCountForTheirEntry) {
  const std::vector<Resources> found = parse_resources(
      "ptxas info    : 24 bytes gmem, 8 bytes cmem[4]\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_80'\n"
      "ptxas info    : Function properties for b\n"
      "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 21 registers, used 1 barriers, 8 bytes cumulative stack size, 256 "
      "bytes "
      "smem, 360 bytes cmem[0]\n"
      "ptxas info    : Function properties for inner\n"
      "    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_80'\n"
      "ptxas info    : Used 7 registers\n");
  const std::vector<Resources> expected = {{"a", 7, 0, 0, 0, 0}, {"b", 21, 4, 12, 24, 256}};
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace jitstep::jit
