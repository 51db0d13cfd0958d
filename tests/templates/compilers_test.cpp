// GCC and Clang compile kernels that give the same bits: every sixth combination. compilers_long_test.cpp has the others.
#include "templates/compilers_bits.h"

#include <cstdlib>
#include <set>
#include <sstream>

#include "jit/base/process.h"
#include "jit/codegen/unit.h"
#include "jit/fixtures.h"

namespace jitstep::support {
namespace {

// The other tests in this file need both compilers. They do not exist if one is missing.
TEST(CompilersOfTheTests, AreBothInstalled) {
  EXPECT_NE(gcc(), "") << "no g++: apt install g++";
  EXPECT_NE(clang(), "") << "no clang++-14 or clang++: apt install clang, as tools/setup.sh does";
}

// jitstep supports every clang from 14 on. The other tests use only one.
TEST(CompilersOfTheTests, MakeAKernelEach) {
  for (const char* name :
       {"clang++-14", "clang++-15", "clang++-16", "clang++-17", "clang++-18", "clang++-19"}) {
    if (installed({name}).empty()) continue;
    SCOPED_TRACE(name);
    StepCase c{.spec = spec_of("adamw", "int8"),
               .options = {},
               .tensors = {{.sizes = {3, 257}}},
               .steps = 2};
    EXPECT_EQ(differences(run_with(gcc(), c), run_with(name, c)), std::vector<Difference>());
  }
}

// The functions of a kernel that read the address of a thread's storage, as the disassembler prints them.
std::set<std::string> readers_of_thread_storage(const jit::Binary& binary) {
  const jit::testing::TemporaryFolder folder;
  const std::string file = folder / "kernel.so";
  jit::testing::write_file(
      file, {reinterpret_cast<const char*>(binary.image.data()), binary.image.size()});
  const std::string objdump = jit::find_program("objdump", std::getenv("PATH"));
  const jit::Finished read =
      jit::run_program({objdump, "-d", "-C", file}, "", jit::own_variables());
  EXPECT_EQ(read.status, 0) << read.output;
  std::set<std::string> readers;
  std::istringstream lines(read.output);
  std::string function;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(">:")) function = line.substr(line.find('<'));
    if (line.find("call") != line.npos && line.find("__tls_get_addr") != line.npos)
      readers.insert(function);
  }
  return readers;
}

#if defined(__x86_64__)
// clang does not save zmm16 to zmm31 around calls that read such an address. The first of them allocates memory, and may
// overwrite these registers: it did so under AddressSanitizer.
TEST(CompilersOfTheTests, ReadThreadLocalStorageInAFunctionOfItsOwn) {
  if (clang().empty()) GTEST_SKIP() << "no clang";
  jit::Settings settings = jit::Settings::from_environment();
  settings.cxx = clang();
  settings.cpu = "x86-64-v4";
  jit::Engine engine(settings);
  const jit::Plan plan = jit::resolve(spec_of("laprop", "fp32"));
  const jit::Target target = jit::Target::cpu();
  const jit::Unit unit = jit::unit(plan, jit::default_kernel_config(plan, target), target);
  const auto readers =
      readers_of_thread_storage(engine.build(unit.text, unit.name, target)->binary);
  EXPECT_FALSE(readers.empty());
  for (const std::string& reader : readers)
    EXPECT_NE(reader.find("jitstep::shared<"), reader.npos) << reader;
}
#endif

INSTANTIATE_TEST_SUITE_P(All, Compilers, testing::ValuesIn(combinations(true)), kCaseName);

}  // namespace
}  // namespace jitstep::support
