// Which NVRTC the library chooses if several are installed. The host compiler makes these libraries, and the test opens
// them for real.
#include "jit/compiler/host_compiler.h"
#include "jit/compiler/nvrtc_compiler.h"
#include "jit/fixtures.h"
#include "jitstep/jit/error.h"
#include "support/fake_driver.h"

namespace jitstep::jit {
namespace {

using namespace testing;

// Bodies of functions of NVRTC.
struct Functions {
  std::string count = "*count = 2; return 0;";
  std::string archs = "archs[0] = 80; archs[1] = 90; return 0;";
  std::string compile = "return 0;";
};

// An NVRTC whose PTX and cubins are `image`. By default it supports sm_80 and sm_90.
std::string fake_nvrtc(int major, int minor, const std::string& image, const Functions& functions) {
  std::string bytes;
  for (const char c : image) bytes += str_cat(static_cast<int>(c), ",");
  return str_cat(R"(
#define API extern "C" __attribute__((visibility("default")))
static const char image[] = {)",
                 bytes, R"(};
typedef unsigned long size;
API int nvrtcVersion(int* major, int* minor) { *major = )",
                 major, "; *minor = ", minor, R"(; return 0; }
API const char* nvrtcGetErrorString(int) { return "none"; }
API int nvrtcGetNumSupportedArchs(int* count) { )",
                 functions.count, R"( }
API int nvrtcGetSupportedArchs(int* archs) { )",
                 functions.archs, R"( }
API int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*,
                           const char* const*) { *program = program; return 0; }
API int nvrtcDestroyProgram(void**) { return 0; }
API int nvrtcCompileProgram(void*, int, const char* const*) { )",
                 functions.compile, R"( }
API int nvrtcGetProgramLogSize(void*, size* n) { *n = 0; return 0; }
API int nvrtcGetProgramLog(void*, char*) { return 0; }
API int nvrtcGetCUBINSize(void*, size* n) { *n = sizeof image; return 0; }
API int nvrtcGetCUBIN(void*, char* to) { for (char c : image) *to++ = c; return 0; }
API int nvrtcGetPTXSize(void*, size* n) { *n = sizeof image; return 0; }
API int nvrtcGetPTX(void*, char* to) { for (char c : image) *to++ = c; return 0; }
)");
}

class NvrtcChoice : public ::testing::Test {
 protected:
  NvrtcChoice() {
    settings = settings_with_cache(folder / "cache");
    settings.nvrtc = folder / "lib";
  }

  void add(int major, int minor, const std::string& below = "lib",
           const Functions& functions = {}) {
    const auto cubin = support::fake_cubin(90);
    const std::string image(reinterpret_cast<const char*>(cubin.data()), cubin.size());
    const std::string source = fake_nvrtc(major, minor, image, functions);
    const Binary library =
        HostCompiler(Settings::from_environment()).compile(source, "nvrtc", Target::cpu());
    testing::write_file(
        folder / str_cat(below, "/libnvrtc.so.", major),
        {reinterpret_cast<const char*>(library.image.data()), library.image.size()});
  }

  // The version that the library chooses for a driver of that CUDA version.
  std::string chosen_version(int driver_version) {
    std::string problem;
    const auto library = find_nvrtc(settings, driver_version, problem);
    return library ? library->version() : problem;
  }

  // Whether the kernel of this key was compiled by that NVRTC, such as "12.9".
  bool was_compiled_by(const std::string& version, const std::string& key) {
    for (const std::string& file : files_below(settings.cache_dir)) {
      std::ifstream in(file, std::ios::binary);
      const std::string content{std::istreambuf_iterator<char>(in), {}};
      if (file.find(key) != std::string::npos)
        return content.find("NVRTC " + version) != std::string::npos;
    }
    return false;
  }

  TemporaryFolder folder;
  Settings settings;
};

TEST_F(NvrtcChoice, IsTheNewestVersionThatTheDriverSupports) {
  add(13, 1);
  add(12, 9);
  EXPECT_EQ(chosen_version(13000), "13.1")
      << "a major version's drivers load what its compilers make";
  EXPECT_EQ(chosen_version(14000), "13.1");
  EXPECT_EQ(chosen_version(12040), "12.9");
  EXPECT_EQ(chosen_version(0), "13.1") << "without a driver";
  EXPECT_EQ(chosen_version(11080), "13.1")
      << "if none will do, kernels can be made for another machine";
}

TEST_F(NvrtcChoice, FallsBackToWhateverIsInstalled) {
  add(13, 0);
  EXPECT_EQ(chosen_version(12040), "13.0");
  settings.nvrtc = folder / "none";
  EXPECT_NE(chosen_version(12040).find("cannot open NVRTC from JITSTEP_NVRTC"), std::string::npos);
}

TEST_F(NvrtcChoice, IsFoundInThePythonEnvironmentThatIsActive) {
  add(13, 7, "venv/lib/python3.12/site-packages/nvidia/cu13/lib");
  settings.nvrtc.clear();
  settings.python_environment = folder / "venv";
  EXPECT_EQ(chosen_version(0), "13.7");
  add(13, 8, "beside/nvidia/cu13/lib");
  settings.nvrtc_search = {folder / "beside"};
  EXPECT_EQ(chosen_version(0), "13.8") << "the one next to torch first";
}

// From the driver's version to the kernel's key, as in a step.
TEST_F(NvrtcChoice, AnEngineUsesTheVersionOfItsDriver) {
  add(13, 1);
  add(12, 9);
  for (const int version : {12040, 13000}) {
    support::FakeDriver fake;
    fake.version = version;
    Engine engine(settings, {.driver = std::make_shared<CudaDriver>(fake.api())});
    const auto kernel = engine.kernel("x", "unit", Target::cuda(90), 0);
    EXPECT_TRUE(was_compiled_by(version < 13000 ? "12.9" : "13.1", kernel->key())) << version;
  }
}

TEST_F(NvrtcChoice, AnEngineSearchesAnAddedFolderFirstUntilItHasOpenedNvrtc) {
  add(13, 6, "venv/lib");
  add(13, 7, "added/lib");
  settings.nvrtc.clear();
  settings.nvrtc_search.clear();
  settings.python_environment = folder / "venv";
  support::FakeDriver fake;
  const Toolchain tools{.driver = std::make_shared<CudaDriver>(fake.api())};
  Engine early(settings, tools), late(settings, tools);
  const auto key_of = [](Engine& engine, const std::string& unit) {
    return engine.build(unit, "unit", Target::cuda(90))->key;
  };
  early.add_nvrtc_folder(folder / "added");
  EXPECT_TRUE(was_compiled_by("13.7", key_of(early, "x")));
  EXPECT_TRUE(was_compiled_by("13.6", key_of(late, "x")));
  late.add_nvrtc_folder(folder / "added");
  EXPECT_TRUE(was_compiled_by("13.6", key_of(late, "y"))) << "it is open already";
}

TEST_F(NvrtcChoice, ALibraryThatSupportsNoGpuIsNotUsed) {
  const Functions broken[] = {{.count = "*count = 2; return 1;"},
                              {.count = "*count = 0; return 0;"},
                              {.archs = "return 1;"}};
  for (int i = 0; i < 3; ++i) {
    add(13, i, str_cat("lib", i), broken[i]);  // a file that is open must not change
    settings.nvrtc = folder / str_cat("lib", i);
    const std::string message = chosen_version(0);
    EXPECT_NE(message.find("does not report which GPUs it supports"), std::string::npos) << message;
  }
}

TEST_F(NvrtcChoice, ALibraryThatCompilesNothingIsNotAvailable) {
  add(13, 0, "lib", {.compile = "return 7;"});
  NvrtcCompiler compiler(settings);
  EXPECT_FALSE(compiler.available(Target::cuda(90)));
  const std::string message = error_of([&] { compiler.identity(Target::cuda(90)); });
  EXPECT_NE(message.find("NVRTC 13.0 cannot open libnvrtc-builtins"), std::string::npos) << message;
}

TEST_F(NvrtcChoice, AMissingCompilerOrOneWithoutTheGpuIsNotAvailable) {
  EXPECT_FALSE(NvrtcCompiler(settings).available(Target::cuda(90)));
  add(13, 0);
  EXPECT_TRUE(NvrtcCompiler(settings).available(Target::cuda(90)));
  EXPECT_FALSE(NvrtcCompiler(settings).available(Target::cuda(70)));
}

}  // namespace
}  // namespace jitstep::jit
