// Branches, calls, barriers and shuffles: lanes diverge and reconverge, and the interpreter detects missing
// synchronization.
#include <gtest/gtest.h>

#include <numeric>

#include "ptx/kernels.h"

namespace jitstep::tests {
namespace {

using Words = std::vector<std::uint32_t>;

// Adds code to a body: %rd10 becomes the address of the thread's word at %rd1, and %r2 is stored there.
std::string with_result(const std::string& body) {
  return "mul.wide.u32 %rd10, %r1, 4;\nadd.s64 %rd10, %rd10, %rd1;\n" + body +
         "\nst.global.u32 [%rd10], %r2;";
}

Words results(const std::string& body, unsigned block = 32, const std::string& functions = "") {
  Device device(kernel(with_result(body), functions));
  const auto to = device.upload(Words(block));
  device.launch({to}, block);
  return device.download<std::uint32_t>(to, block);
}

template <class F>
Words expected(unsigned block, const F& of_lane) {
  Words words(block);
  std::iota(words.begin(), words.end(), 0u);
  for (auto& word : words) word = of_lane(word);
  return words;
}

std::string fault_of(const std::string& body, unsigned block = 32, unsigned grid = 1,
                     const std::string& variables = "") {
  Device device(kernel(with_result(body), variables));
  return device.fault({device.upload(Words(1024))}, block, grid);
}

bool says(const std::string& fault, const std::string& words) {
  return fault.find(words) != fault.npos;
}

TEST(PtxLanes, SplitAndJoinValues) {
  EXPECT_EQ(
      results(
          "add.s32 %r3, %r1, 305419896;\nmov.b32 {%rs1, %rs2}, %r3;\nmov.b32 %r2, {%rs2, %rs1};"),
      expected(32, [](std::uint32_t lane) {
        const std::uint32_t x = lane + 0x12345678;
        return x << 16 | x >> 16;
      }));
  EXPECT_EQ(
      results(
          "mov.b64 %rd11, {%r1, 7};\nmov.b64 {%r3, %r4}, %rd11;\nmad.lo.s32 %r2, %r4, 100, %r3;\n"
          "mov.b64 %rd11, {%rs1, %rs1, %rs1, %rs1};"),
      expected(32, [](std::uint32_t lane) { return 700 + lane; }));
}

// ---- branches and calls -------------------------------------------------------------------------

TEST(PtxLanes, TakeTheirOwnBranchesAndLoops) {
  // Collatz sequences: each lane needs a different number of steps.
  const Words got = results(
      "add.s32 %r3, %r1, 1;\nmov.u32 %r2, 0;\n$LOOP:\nsetp.eq.s32 %p1, %r3, 1;\n@%p1 bra $DONE;\n"
      "and.b32 %r4, %r3, 1;\nsetp.eq.s32 %p2, %r4, 0;\nadd.s32 %r2, %r2, 1;\n@%p2 bra $EVEN;\n"
      "mad.lo.s32 %r3, %r3, 3, 1;\nbra.uni $LOOP;\n$EVEN:\nshr.u32 %r3, %r3, 1;\nbra "
      "$LOOP;\n$DONE:",
      70);
  EXPECT_EQ(got, expected(70, [](std::uint32_t lane) {
              std::uint32_t steps = 0;
              for (std::uint32_t n = lane + 1; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) ++steps;
              return steps;
            }));
}

TEST(PtxLanes, MayExitEarly) {
  EXPECT_EQ(results("mov.u32 %r2, 7;\nsetp.gt.u32 %p1, %r1, 3;\n@!%p1 bra $GO;\nret;\n$GO:", 8),
            (Words{7, 7, 7, 7, 0, 0, 0, 0}));
}

TEST(PtxLanes, ExecuteGuardedInstructionsOnlyIfTheGuardHolds) {
  EXPECT_EQ(results("mov.u32 %r2, 1;\nsetp.lt.u32 %p1, %r1, 2;\n@%p1 mov.u32 %r2, 5;\n@!%p1 "
                    "add.s32 %r2, %r2, 8;",
                    4),
            (Words{5, 5, 9, 9}));
}

TEST(PtxLanes, ReadTheirSpecialRegisters) {
  Device device(
      kernel("mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmad.lo.s32 %r4, %r2, %r3, %r1;\n"
             "mul.wide.u32 %rd10, %r4, 16;\nadd.s64 %rd10, %rd10, %rd1;\nmov.u32 %r5, %nctaid.x;\n"
             "mov.u32 %r6, %laneid;\nst.global.v4.u32 [%rd10], {%r2, %r3, %r5, %r6};"));
  const auto to = device.upload(Words(3 * 40 * 4));
  device.launch({to}, 40, 3);
  const Words got = device.download<std::uint32_t>(to, 3 * 40 * 4);
  for (unsigned k = 0; k < 120; ++k)
    EXPECT_EQ((Words{got[4 * k], got[4 * k + 1], got[4 * k + 2], got[4 * k + 3]}),
              (Words{k / 40, 40, 3, k % 40 % 32}))
        << k;
}

const std::string kTriple =
    ".func (.param .b32 out) triple(.param .b32 in)\n;\n"
    ".func (.param .b32 out) triple(.param .b32 in)\n{\n.reg .b32 %a<3>;\n.reg .pred "
    "%q;\nld.param.b32 %a1, [in];\n"
    "setp.gt.s32 %q, %a1, 5;\nmul.lo.s32 %a2, %a1, 3;\n@%q bra $LARGE;\nst.param.b32 [out], "
    "%a2;\nret;\n"
    "$LARGE:\nadd.s32 %a2, %a2, 1000;\nst.param.b32 [out+0], %a2;\nret;\n}\n";

std::string call(const std::string& name) {
  return "{\n.param .b32 param0;\nst.param.b32 [param0+0], %r1;\n.param .b32 retval0;\n" + name +
         " (retval0),\ntriple,\n(\nparam0\n);\nld.param.b32 %r2, [retval0+0];\n}\n";
}

TEST(PtxLanes, CallFunctionsFromSeveralPlacesAtOnce) {
  const auto triple = [](std::uint32_t x) { return x > 5 ? 3 * x + 1000 : 3 * x; };
  EXPECT_EQ(results(call("call.uni"), 16, kTriple), expected(16, triple));
  EXPECT_EQ(results("and.b32 %r3, %r1, 1;\nsetp.eq.s32 %p1, %r3, 0;\n@%p1 bra $EVEN;\n" +
                        call("call.uni") + "bra $JOIN;\n$EVEN:\n" + call("call") +
                        "add.s32 %r2, %r2, 1;\n$JOIN:",
                    16, kTriple),
            expected(16, [&](std::uint32_t x) { return triple(x) + (x % 2 == 0); }));
}

// ---- shuffles -----------------------------------------------------------------------------------

std::string shuffle(const std::string& mode, const std::string& by, const std::string& bounds,
                    const std::string& mask = "-1") {
  return "mul.lo.s32 %r3, %r1, 10;\nshfl.sync." + mode + ".b32 %r2|%p1, %r3, " + by + ", " +
         bounds + ", " + mask + ";\nselp.b32 %r4, 1, 0, %p1;\nadd.s32 %r2, %r2, %r4;";
}

TEST(PtxLanes, ShuffleByTheRulesOfEachMode) {
  EXPECT_EQ(results(shuffle("bfly", "4", "31")),
            expected(32, [](std::uint32_t l) { return 10 * (l ^ 4) + 1; }));
  EXPECT_EQ(results(shuffle("up", "3", "0")),
            expected(32, [](std::uint32_t l) { return l < 3 ? 10 * l : 10 * (l - 3) + 1; }));
  EXPECT_EQ(results(shuffle("down", "3", "31")),
            expected(32, [](std::uint32_t l) { return l > 28 ? 10 * l : 10 * (l + 3) + 1; }));
  EXPECT_EQ(results(shuffle("idx", "5", "31")), expected(32, [](std::uint32_t) { return 51u; }));
  // Segments of 8 lanes: mask 24 in bits 8 to 12.
  EXPECT_EQ(results(shuffle("idx", "5", "6175")),
            expected(32, [](std::uint32_t l) { return 10 * (l / 8 * 8 + 5) + 1; }));
  EXPECT_EQ(results(shuffle("down", "3", "6175")),
            expected(32, [](std::uint32_t l) { return l % 8 > 4 ? 10 * l : 10 * (l + 3) + 1; }));
}

TEST(PtxLanes, ReduceToTheLargestAndTheSmallest) {
  const std::string values = "sub.s32 %r3, %r1, 7;\n";
  EXPECT_EQ(results(values + "redux.sync.max.u32 %r2, %r3, -1;")[3], 0xffffffffu);
  EXPECT_EQ(results(values + "redux.sync.max.s32 %r2, %r3, -1;")[3], 24u);
  EXPECT_EQ(results(values + "redux.sync.min.s32 %r2, %r3, -1;")[9],
            static_cast<std::uint32_t>(-7));
  EXPECT_EQ(results(values + "redux.sync.min.u32 %r2, %r3, -1;")[9], 0u);
}

TEST(PtxLanes, ReconvergeAtAShuffle) {
  EXPECT_EQ(results("setp.lt.u32 %p2, %r1, 9;\n@%p2 bra $JOIN;\nadd.s32 %r1, %r1, 0;\n$JOIN:\n" +
                    shuffle("bfly", "1", "31")),
            expected(32, [](std::uint32_t l) { return 10 * (l ^ 1) + 1; }));
}

const std::string kHalf = "setp.lt.u32 %p2, %r1, 16;\n";

TEST(PtxLanes, MustNotShuffleWithAbsentLanes) {
  const std::string one = "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n";
  // The other lanes are in another branch, have exited, are not in the mask, or have another mask.
  EXPECT_TRUE(says(fault_of(kHalf + "@%p2 bra $A;\n" + one + "bra $B;\n$A:\n" + one + "$B:"),
                   "do not come"));
  EXPECT_TRUE(says(fault_of(kHalf + "@%p2 ret;\n" + one), "have left"));
  EXPECT_TRUE(says(fault_of(one, 20), "have left"));
  EXPECT_TRUE(says(fault_of(shuffle("bfly", "1", "31", "255")), "does not name"));
  EXPECT_TRUE(says(fault_of("mov.u32 %r5, %r1;\n" + shuffle("bfly", "1", "31", "%r5")),
                   "name different lanes"));
  EXPECT_EQ(fault_of(shuffle("bfly", "1", "31", "255"), 8), "");
}

// ---- barriers

// Each thread writes its number into shared memory and reads that of another, after `between`.
std::string exchange(const std::string& between, int distance) {
  return "mul.wide.u32 %rd11, %r1, 4;\nmov.u64 %rd12, s;\nadd.s64 %rd13, %rd12, "
         "%rd11;\nst.shared.u32 [%rd13], %r1;\n" +
         between + "\nxor.b32 %r3, %r1, " + std::to_string(distance) +
         ";\nmul.wide.u32 %rd11, %r3, 4;\nadd.s64 %rd14, %rd12, %rd11;\nld.shared.u32 %r2, "
         "[%rd14];";
}
const std::string kShared = ".shared .align 4 .b8 s[1024];\n";

TEST(PtxBarriers, OrderWhatThreadsWriteAndRead) {
  EXPECT_EQ(results(exchange("bar.sync 0;", 40), 64, kShared),
            expected(64, [](std::uint32_t t) { return t ^ 40; }));
  EXPECT_EQ(results(exchange("bar.warp.sync -1;", 9), 64, kShared),
            expected(64, [](std::uint32_t t) { return t ^ 9; }));
}

TEST(PtxBarriers, ThatAreMissingAreDetected) {
  EXPECT_TRUE(says(fault_of(exchange("", 1), 64, 1, kShared), "with no barrier"));
  EXPECT_TRUE(says(fault_of(exchange("", 40), 64, 1, kShared), "with no barrier"));
  EXPECT_EQ(fault_of(exchange("", 0), 64, 1, kShared), "");
  // A warp barrier does not order different warps.
  EXPECT_TRUE(says(fault_of(exchange("bar.warp.sync -1;", 40), 64, 1, kShared), "with no barrier"));
  // Reads and later writes: a second exchange at the same addresses.
  const std::string again = exchange("bar.sync 0;", 40);
  EXPECT_TRUE(says(fault_of(again + again, 64, 1, kShared), "with no barrier"));
  EXPECT_EQ(fault_of(again + "bar.sync 0;\n" + again, 64, 1, kShared), "");
}

TEST(PtxBarriers, DoNotOrderBlocks) {
  const std::string one =
      "setp.eq.s32 %p1, %r1, 0;\n@%p1 st.global.u32 [%rd1+512], %r1;\nbar.sync 0;\n";
  Device device(kernel(one + "ld.global.u32 %r2, [%rd1+512];"));
  const auto to = device.upload(Words(1024));
  EXPECT_EQ(device.fault({to}, 64, 1), "");
  EXPECT_TRUE(says(device.fault({to}, 64, 2), "with no barrier"));
}

TEST(PtxBarriers, OfManyReadersAreNeededBeforeAWrite) {
  // All threads read one word. The first thread writes it afterwards.
  const auto body = [](const std::string& between) {
    return "setp.eq.s32 %p1, %r1, 0;\nld.global.u32 %r2, [%rd1+512];\n" + between +
           "\n@%p1 st.global.u32 [%rd1+512], %r1;";
  };
  const auto fault = [&](const std::string& between, unsigned block) {
    Device device(kernel(body(between)));
    return device.fault({device.upload(Words(1024))}, block);
  };
  EXPECT_TRUE(says(fault("", 32), "has read, with no barrier"));
  EXPECT_EQ(fault("bar.warp.sync -1;", 32), "");
  EXPECT_TRUE(says(fault("bar.warp.sync -1;", 64), "with no barrier"));
  EXPECT_EQ(fault("bar.sync 0;", 64), "");
}

TEST(PtxBarriers, MustBeReachedByAll) {
  EXPECT_TRUE(says(fault_of(kHalf + "@%p2 bra $A;\nbar.sync 0;\n$A:"), "do not come") ||
              says(fault_of(kHalf + "@%p2 bra $A;\nbar.sync 0;\n$A:"), "not reached by all"));
  EXPECT_TRUE(says(fault_of("setp.lt.u32 %p2, %r1, 32;\n@%p2 bra $A;\nbar.sync 0;\n$A:", 64),
                   "not reached by all"));
  EXPECT_TRUE(says(
      fault_of(
          "setp.lt.u32 %p2, %r1, 32;\n@%p2 bra $A;\nbar.sync 0;\nbra $B;\n$A:\nbar.sync 0;\n$B:",
          64),
      "not reached by all"));
  EXPECT_TRUE(says(fault_of(kHalf + "@%p2 ret;\nbar.warp.sync -1;"), "have left"));
}

// ---- unknown or invalid PTX

std::string refusal(const std::string& text) {
  try {
    Device device(text);
  } catch (const ptx::PtxError& error) {
    return error.what();
  }
  return "";
}

TEST(PtxText, ErrorsNameTheUnknownPartAndTheLine) {
  EXPECT_EQ(refusal(kernel("\nadd.f32 %f1, %f1, %f1;")),
            "line 18: the operation add.f32 is not known");
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"add.s32 %r1, %r1;", "takes 3 operands"},
      {"add.s32 %r1, %r1, %rd1;", "%rd1 has 64 bits, where 32"},
      {"add.s32 %r1, %r1, %none;", "there is no %none"},
      {"add.rn.f32 %f1, %f1, 0d3FF0000000000000;", "a number of 64 bits where 32"},
      {"bra $NOWHERE;", "no label $NOWHERE"},
      {"ld.global.u32 %rs1, [%rd1];", "do not suit"},
      {"ld.global.v4.u32 {%r1, %r2}, [%rd1];", "a vector of 4"},
      {"ld.global.u32 %r1, [%r2];", "no address of 64 bits"},
      {"bar.sync 1;", "only the barrier 0"},
      {"atom.global.add.u32 %r1, [%rd1], 1;", "atom.global.add.u32 is not known"},
      {"call.uni (retval0), nothing, (param0);", "not declared before"},
      {"$A:\n$A:", "defined twice"},
      {"cvt.rn.f32.f64 %f1, %f2;", "do not suit"},
  };
  for (const auto& [body, words] : wrong)
    EXPECT_TRUE(says(refusal(kernel(body)), words)) << body << ": " << refusal(kernel(body));
  EXPECT_TRUE(says(refusal(".version 9.0\n.target sm_90\n.extern .shared .b8 s[];"),
                   "the directive .extern"));
  std::string old = kernel("cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;");
  EXPECT_EQ(refusal(old), "");
  old.replace(old.find("sm_90"), 5, "sm_80");
  EXPECT_TRUE(says(refusal(old), "needs sm_89"));
}

TEST(PtxLaunches, OfTooManyThreadsFail) {
  EXPECT_TRUE(says(fault_of("", 2048), "cannot be launched"));
  EXPECT_TRUE(says(fault_of("", 32, 0), "cannot be launched"));
}

}  // namespace
}  // namespace jitstep::tests
