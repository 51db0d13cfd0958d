#include "jit/compiler/loop_report.h"

#include "jit/compiler/loop_reporter.h"
#include "jit/fixtures.h"
#include "jit/source/preprocess.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// Marked loops: lines 3 and 7 of the first file, and line 2 of the second.
constexpr const char* kFlat = R"(#line 1 "kernel/loop/load.cuh"
// vectorized: the loop over elements
INDEPENDENT
for (int i = 0; i < n; ++i) {
}
for (int i = 0; i < n; ++i) {
// vectorized: the loop that encodes
for (int i = 0; i < n; ++i) {
#line 1 "mine.cuh"
// vectorized: my loop
for (int i = 0; i < n; ++i) {
)";

std::vector<std::string> loops_in(const std::string& report) {
  std::vector<std::string> loops;
  for (const ScalarLoop& loop : scalar_loops(kFlat, report)) loops.push_back(to_string(loop));
  return loops;
}

using Loops = std::vector<std::string>;

TEST(LoopReport, OfGccNamesTheMarkedLoopsWithItsReason) {
  EXPECT_EQ(loops_in("kernel/loop/load.cuh:3:19: missed: couldn't vectorize loop\n"
                     "kernel/loop/load.cuh:3:19: missed: not vectorized: control flow in loop.\n"
                     "kernel/loop/load.cuh:5:19: missed: couldn't vectorize loop\n"
                     "kernel/loop/load.cuh:5:19: missed: not vectorized: no grouped stores.\n"
                     "mine.cuh:2:5: missed: couldn't vectorize loop\n"
                     "other.cuh:9:5: missed: not vectorized: no vectype for stmt: x = y;\n"),
            (Loops{"the loop over elements (kernel/loop/load.cuh:3: control flow in loop)",
                   "my loop (mine.cuh:2: no vectype for stmt: x = y;)"}));
}

TEST(LoopReport, OfClangNamesTheMarkedLoopsWithItsReason) {
  EXPECT_EQ(
      loops_in(
          "kernel/loop/load.cuh:7:3: remark: loop not vectorized: call instruction cannot be "
          "vectorized [-Rpass-analysis=loop-vectorize]\n"
          "kernel/loop/load.cuh:7:3: remark: loop not vectorized [-Rpass-missed=loop-vectorize]\n"
          "mine.cuh:2:5: remark: loop not vectorized [-Rpass-missed=loop-vectorize]\n"),
      (Loops{
          "the loop that encodes (kernel/loop/load.cuh:7: call instruction cannot be vectorized)",
          "my loop (mine.cuh:2)"}));
}

TEST(LoopReport, OfVectorizedLoopsAndOfOtherLinesIsEmpty) {
  EXPECT_EQ(loops_in(""), Loops{});
  EXPECT_EQ(loops_in("kernel/loop/load.cuh:3:19: optimized: loop vectorized using 32 byte vectors\n"
                     "a line of no place\n"
                     "kernel/loop/load.cuh:3:19: missed: statement clobbers memory: f ();\n"
                     "kernel/loop/load.cuh:3:19: missed: not vectorized: a block, no loop\n" +
                     std::string(100000, 'x') + "\n"),
            Loops{});
}

constexpr const char* kTwoLoops =
    "extern \"C\" void plain(float* x, int n) {\n"
    "  // vectorized: the plain loop\n"
    "  for (int i = 0; i < n; ++i) x[i] = x[i] > 0 ? 2 * x[i] : 1;\n}\n"
    "extern \"C\" void halves(float* x, int n) {\n"
    "  // vectorized: the loop that halves\n"
    "  for (int i = 0; i < n; ++i)\n"
    "    while (x[i] > 1) x[i] *= 0.5f;\n}\n";

std::string preprocessed_loops() {
  TemplateStore store("", false);
  store.add("loops.cuh", kTwoLoops);
  return preprocess("#include \"loops.cuh\"\n", "unit", store);
}

TEST(LoopReport, OfTheHostCompilerNamesOnlyTheLoopWithBranches) {
  const std::string preprocessed = preprocessed_loops();
  HostCompiler compiler(testing::settings_of_this_computer(""));
  const auto loops =
      scalar_loops(preprocessed, compiler.loop_report(preprocessed, "unit", Target::cpu()));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].what, "the loop that halves");
  EXPECT_EQ(loops[0].location, (SourceLocation{"loops.cuh", 7}));
}

TEST(LoopReporter, LogsTheLoopsOfAnUnchangedBinary) {
  const std::string preprocessed = preprocessed_loops();
  const Settings settings = testing::settings_of_this_computer("");
  LoopReporter reporter(settings);
  HostCompiler plain(settings);
  EXPECT_EQ(reporter.identity(Target::cpu()), plain.identity(Target::cpu()));
  const Binary logged = reporter.compile(preprocessed, "unit", Target::cpu());
  EXPECT_EQ(logged.image, plain.compile(preprocessed, "unit", Target::cpu()).image);
  const auto loops = loops_in_log("a warning\n" + logged.log, preprocessed);
  EXPECT_EQ(loops_in_log(logged.log, "// a comment\n" + preprocessed), std::nullopt);
  ASSERT_TRUE(loops);
  ASSERT_EQ(loops->size(), 1u);
  EXPECT_TRUE(loops->at(0).starts_with("the loop that halves (loops.cuh:7")) << loops->at(0);
  EXPECT_EQ(loops_in_log(reporter.compile("", "unit", Target::cpu()).log, ""), Loops{});
  EXPECT_EQ(loops_in_log(reporter.compile("", "unit", Target::emulated()).log, ""), std::nullopt);
  EXPECT_THROW(reporter.compile("wrong", "unit", Target::cpu()), CompileError);
}

TEST(LoopReporter, LogsNothingIfTheCompilerCannotReportLoops) {
  testing::TemporaryFolder folder;
  testing::write_file(
      folder / "silent",
      "#!/bin/sh\ncase \" $* \" in *\" -fopt-info\"*) exit 1;; esac\nexec c++ \"$@\"\n");
  testing::fs::permissions(folder / "silent", testing::fs::perms::owner_all);
  Settings settings = testing::settings_with_cache("");
  settings.cxx = folder / "silent";
  LoopReporter reporter(settings);
  const Binary binary = reporter.compile(preprocessed_loops(), "unit", Target::cpu());
  EXPECT_FALSE(binary.image.empty());
  EXPECT_EQ(loops_in_log(binary.log, preprocessed_loops()), std::nullopt);
}

// A compiler that calls itself clang and prints a megabyte of remarks about loops.
TEST(LoopReport, OfClangIsCompleteHoweverLong) {
  testing::TemporaryFolder folder;
  testing::write_file(
      folder / "clang",
      "#!/bin/sh\n"
      "case \" $* \" in *\" -E \"*) echo 'clang version 99' >&2; exec c++ \"$@\";; esac\n"
      "for word; do shift; case $word in -Rpass*|*implicit-float*|-ferror*);; *) set -- \"$@\" "
      "\"$word\";; esac; done\n"
      "remarks() { seq 1 20000 | sed 's/.*/schedules.cuh:&:3: remark: loop not vectorized/' >&2; "
      "}\n"
      "remarks; echo 'mine.cuh:2:5: remark: loop not vectorized: it is mine' >&2; remarks\n"
      "exec c++ \"$@\"\n");
  testing::fs::permissions(folder / "clang", testing::fs::perms::owner_all);
  Settings settings = testing::settings_with_cache("");
  settings.cxx = folder / "clang";
  const std::string report = HostCompiler(settings).loop_report("", "unit", Target::cpu());
  EXPECT_GT(report.size(), std::size_t{1} << 20);
  EXPECT_EQ(loops_in(report), Loops{"my loop (mine.cuh:2: it is mine)"});
}

}  // namespace
}  // namespace jitstep::jit
