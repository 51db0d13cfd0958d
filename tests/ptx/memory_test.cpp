// Loads and stores of every width, space and vector, and invalid accesses that the interpreter detects.
#include <gtest/gtest.h>

#include "ptx/kernels.h"
#include "support/ptx/forms.h"

namespace jitstep::tests {
namespace {

const std::vector<std::uint8_t>& pattern() {
  static const std::vector<std::uint8_t> bytes = [] {
    std::vector<std::uint8_t> made;
    for (unsigned k = 0; k < 4096; ++k)
      made.push_back(static_cast<std::uint8_t>(k * 37 + 11 + k / 256));
    return made;
  }();
  return bytes;
}

struct Access {
  std::string type;
  int bytes, parts;
};

std::vector<Access> accesses() {
  std::vector<Access> all;
  for (const int bytes : {1, 2, 4, 8})
    for (const char letter : std::string(bytes < 4 ? "bus" : "busf"))
      for (const int parts : {1, 2, 4})
        if (bytes * parts <= 16)
          all.push_back({(parts == 1 ? "." : ".v" + std::to_string(parts) + ".") + letter +
                             std::to_string(8 * bytes),
                         bytes, parts});
  return all;
}

std::string registers(const Access& a) {
  const std::string name = a.bytes <= 2 ? "%rs" : a.bytes == 4 ? "%r1" : "%rd2";
  std::string list;
  for (int k = 1; k <= a.parts; ++k) list += (k == 1 ? "" : ", ") + name + std::to_string(k);
  return a.parts == 1 ? list : "{" + list + "}";
}

// %rd10 and %rd11: the addresses that a lane reads and writes.
std::string addresses(const Access& a) {
  const std::string step = std::to_string(a.bytes * a.parts);
  return "mul.wide.u32 %rd12, %r1, " + step +
         ";\nadd.s64 %rd10, %rd1, %rd12;\nadd.s64 %rd11, %rd2, %rd12;\n";
}

std::vector<std::uint8_t> copied(const std::string& text, std::size_t bytes) {
  Device device(text);
  const auto from = device.upload(pattern());
  const auto to = device.upload(std::vector<std::uint8_t>(bytes));
  device.launch({from, to}, 64);
  return device.download<std::uint8_t>(to, bytes);
}

void expect_copy(const std::string& text, const Access& a, const std::string& name) {
  const auto bytes = static_cast<std::size_t>(64 * a.bytes * a.parts);
  const std::vector<std::uint8_t> wanted(pattern().begin(),
                                         pattern().begin() + static_cast<std::ptrdiff_t>(bytes));
  EXPECT_EQ(copied(text, bytes), wanted) << name << a.type;
}

TEST(PtxAccesses, OfEveryWidthAndVectorMoveTheirBytes) {
  for (const Access& a : accesses()) {
    const auto through = [&](const std::string& load, const std::string& store) {
      return kernel(addresses(a) + load + a.type + " " + registers(a) + ", [%rd10];\n" + store +
                    a.type + " [%rd11], " + registers(a) + ";");
    };
    expect_copy(through("ld.global", "st.global"), a, "global");
    expect_copy(through("ld.global.nc", "st.global"), a, "nc");
    expect_copy(through("ld", "st"), a, "generic");
  }
}

TEST(PtxAccesses, OfSharedAndLocalMemoryMoveTheirBytes) {
  for (const std::string space : {"shared", "local"})
    for (const Access& a : accesses()) {
      const std::string there = "." + space + " .align 16 .b8 room[1024];\n", type = a.type + " ";
      const std::string values = registers(a);
      expect_copy(
          kernel(there + addresses(a) + "mov.u64 %rd13, room;\nadd.s64 %rd13, %rd13, %rd12;\n" +
                 "ld.global" + type + values + ", [%rd10];\nst." + space + type + "[%rd13], " +
                 values + ";\nbar.sync 0;\n" +
                 // The same through a generic address, and back.
                 "cvta." + space + ".u64 %rd14, %rd13;\nld" + type + values + ", [%rd14];\n" +
                 "cvta.to." + space + ".u64 %rd15, %rd14;\nst." + space + type + "[%rd15], " +
                 values + ";\nld." + space + type + values + ", [%rd15];\n" +
                 "cvta.global.u64 %rd16, %rd11;\ncvta.to.global.u64 %rd16, %rd16;\nst.global" +
                 type + "[%rd16], " + values + ";"),
          a, space);
    }
}

TEST(PtxAccesses, OfParametersMoveTheirBytes) {
  for (const Access& a : accesses()) {
    const std::string values = registers(a), type = a.type + " ";
    expect_copy(kernel(addresses(a) + "ld.global" + type + values +
                       ", [%rd10];\n{\n.param .align 16 .b8 own[32];\n" + "st.param" + type +
                       "[own+16], " + values + ";\nld.param" + type + values +
                       ", [own+16];\n}\nst.global" + type + "[%rd11], " + values + ";"),
                a, "param");
  }
}

TEST(PtxAccesses, ExtendTheSignOfLoadedValues) {
  Device device(
      kernel("ld.global.s8 %rs1, [%rd1];\ncvt.u32.u16 %r2, %rs1;\nst.global.u32 [%rd2], %r2;\n"
             "ld.global.s32 %rd20, [%rd1+4];\nst.global.u64 [%rd2+8], %rd20;\n"
             "ld.global.u8 %r3, [%rd1];\nst.global.u32 [%rd2+4], %r3;"));
  const auto from = device.upload(std::vector<std::uint32_t>{0x80, 0x80000000});
  const auto to = device.upload(std::vector<std::uint64_t>(2));
  device.launch({from, to}, 1);
  EXPECT_EQ(device.download<std::uint64_t>(to, 2),
            (std::vector<std::uint64_t>{0x80'0000ff80, 0xffffffff'80000000}));
}

TEST(PtxAccesses, ReadTheVariablesOfTheModule) {
  Device device(
      kernel("mov.u64 %rd10, table;\nld.global.u32 %r2, [%rd10+4];\nld.global.f64 %fd1, [number];\n"
             "st.global.u32 [%rd1], %r2;\nst.global.f64 [%rd1+8], %fd1;",
             ".global .align 4 .b8 table[8] = {1, 0, 0, 0, 2, 1};\n.global .align 8 .f64 number = "
             "0d3FF8000000000000;\n"));
  const auto to = device.upload(std::vector<std::uint64_t>(2));
  device.launch({to}, 1);
  EXPECT_EQ(device.download<std::uint32_t>(to, 1)[0], 0x102u);
  EXPECT_EQ(device.download<double>(to + 8, 1)[0], 1.5);
}

// ---- invalid accesses

std::string fault_of(const std::string& body, unsigned block = 32, unsigned grid = 1) {
  Device device(kernel(body));
  return device.fault({device.upload(std::vector<float>(64)), device.memory.allocate(0, 256)},
                      block, grid);
}

bool says(const std::string& fault, const std::string& words) {
  return fault.find(words) != fault.npos;
}

TEST(PtxAccesses, OutsideAllocationsFail) {
  for (const std::string offset : {"256", "-4", "4096"})
    EXPECT_TRUE(says(fault_of("ld.global.f32 %f1, [%rd1+" + offset + "];"), "are not allocated"))
        << offset;
  EXPECT_TRUE(
      says(fault_of("mov.u64 %rd10, 0;\nst.global.f32 [%rd10], %f1;"), "are not allocated"));
  EXPECT_TRUE(says(fault_of("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+248];"), "are not a"));
  EXPECT_EQ(fault_of("ld.global.f32 %f1, [%rd1+252];"), "");
}

TEST(PtxAccesses, OfFreedMemoryFail) {
  Device device(kernel("ld.global.f32 %f1, [%rd1];"));
  const auto from = device.upload(std::vector<float>(1));
  EXPECT_EQ(device.fault({from}), "");
  device.memory.free(from);
  EXPECT_TRUE(says(device.fault({from}), "are not allocated"));
}

TEST(PtxAccesses, ThatAreNotAlignedFail) {
  EXPECT_TRUE(says(fault_of("ld.global.f32 %f1, [%rd1+2];"), "are not aligned"));
  EXPECT_TRUE(says(fault_of("ld.global.v2.f32 {%f1, %f2}, [%rd1+4];"), "are not aligned"));
  EXPECT_TRUE(
      says(fault_of(".shared .align 8 .b8 s[16];\nld.shared.f64 %fd1, [s+4];"), "is not aligned"));
}

TEST(PtxAccesses, OfUnwrittenMemoryFail) {
  EXPECT_TRUE(says(fault_of("ld.global.f32 %f1, [%rd2];"), "never written"));
  EXPECT_EQ(
      fault_of(
          "mul.wide.u32 %rd10, %r1, 4;\nadd.s64 %rd10, %rd10, %rd2;\nst.global.f32 [%rd10], %f1;\n"
          "ld.global.f32 %f1, [%rd10];"),
      "");
  EXPECT_TRUE(says(fault_of("st.global.u8 [%rd2], %rs1;\nld.global.u16 %rs1, [%rd2];", 1),
                   "never written"));
}

TEST(PtxAccesses, OfSharedMemoryStayInsideOneVariable) {
  const std::string two = ".shared .align 4 .b8 s[16];\n.shared .align 4 .b8 t[16];\n";
  EXPECT_TRUE(says(fault_of(two + "st.shared.f32 [s+16], %f1;", 1), "belong to no variable"));
  EXPECT_EQ(fault_of(two + "st.shared.f32 [s+12], %f1;", 1), "");
}

TEST(PtxAccesses, OfAnotherDevicesMemoryFail) {
  Device device(kernel("ld.global.f32 %f1, [%rd1];"));
  EXPECT_TRUE(says(device.fault({device.memory.allocate(1, 4)}), "memory of device 1"));
}

TEST(PtxAccesses, AsConstantFailIfTheLaunchWrites) {
  EXPECT_TRUE(says(fault_of("st.global.f32 [%rd1], %f1;\nld.global.nc.f32 %f1, [%rd1];", 1),
                   "as constant"));
  EXPECT_TRUE(says(fault_of("ld.global.nc.f32 %f1, [%rd1];\nst.global.f32 [%rd1], %f1;", 1),
                   "as constant"));
  EXPECT_EQ(fault_of("ld.global.nc.f32 %f1, [%rd1];\nst.global.f32 [%rd1+4], %f1;", 1), "");
}

TEST(PtxAccesses, OfModuleVariablesStayInsideOneVariable) {
  const std::string two =
      ".global .align 4 .f32 one[4] = {1, 2, 3, 4};\n.global .align 4 .f32 two[4] = {5, 6, 7, "
      "8};\n";
  const auto fault = [&](const std::string& body) { return Device(kernel(body, two)).fault({}); };
  EXPECT_EQ(fault("ld.global.nc.f32 %f1, [one+12];\nld.global.f32 %f1, [two];"), "");
  EXPECT_TRUE(says(fault("ld.global.nc.f32 %f1, [one+16];"), "never written"));
}

TEST(PtxAccesses, FarBeyondTheEndOfAnAllocationDoNotReachTheNextOne) {
  Device device(kernel("ld.global.f32 %f1, [%rd1+4096];"));
  const auto one = device.upload(std::vector<float>(256));
  device.upload(std::vector<float>(4096));
  EXPECT_TRUE(says(device.fault({one}), "are not allocated"));
}

TEST(PtxAccesses, OfSharedMemoryAtAnAddressThatWrapsAroundFail) {
  const std::string fault =
      fault_of(".shared .align 4 .b8 s[16];\nmov.u64 %rd10, 0;\nst.shared.u32 [%rd10+-4], %r1;", 1);
  EXPECT_TRUE(says(fault, "belong to no variable")) << fault;
}

TEST(PtxBlocks, DoNotSeeTheRegistersOfEarlierBlocks) {
  const std::string body =
      "mov.u32 %r2, %ctaid.x;\nsetp.ne.u32 %p1, %r2, 0;\nmul.wide.u32 %rd10, %r2, 4;\n"
      "add.s64 %rd10, %rd10, %rd1;\n@%p1 st.global.f32 [%rd10], %f1;\n"
      "@!%p1 mov.f32 %f1, 0f3F800000;\n@!%p1 st.global.f32 [%rd10], %f1;";
  Device device(kernel(body));
  const auto to = device.upload(std::vector<float>(2));
  device.launch({to}, 1, 2);
  const std::vector<float> values = device.download<float>(to, 2);
  EXPECT_EQ(values[0], 1);
  EXPECT_NE(values[1], values[1]) << "not written in this block: a NaN";
}

TEST(PtxBlocks, MustNotRunPastTheEndOfAFunction) {
  std::string text = kernel("");
  text.replace(text.find("ret;"), 4, "mov.u32 %r2, %r1;");
  const std::string fault = Device(text).fault({});
  EXPECT_TRUE(says(fault, "past the end")) << fault;
  EXPECT_TRUE(says(fault, "(})")) << fault << "\nis not at the closing brace";
}

TEST(PtxAccesses, AreNamedWithLineBlockAndLane) {
  const std::string fault =
      fault_of("setp.eq.s32 %p1, %r1, 37;\n@%p1 ld.global.f32 %f1, [%rd1+256];", 64);
  EXPECT_TRUE(says(fault, "k, line ")) << fault;
  EXPECT_TRUE(says(fault, "@%p1 ld.global.f32 %f1, [%rd1+256]")) << fault;
  EXPECT_TRUE(says(fault, "block 0, warp 1, lane 5")) << fault;
}

// ---- counters

TEST(PtxCounts, CountInstructionsAndSectorsOf32Bytes) {
  const std::string at = "mul.wide.u32 %rd10, %r1, 4;\nadd.s64 %rd10, %rd10, %rd1;\n";
  const auto counts = [](const std::string& body) {
    Device device(kernel(body));
    return device.launch({device.upload(std::vector<float>(64 * 32))}, 32);
  };
  const ptx::Counts none = counts(""), dense = counts(at + "ld.global.f32 %f1, [%rd10];");
  EXPECT_EQ(none.sectors_read, 0u);
  EXPECT_EQ(dense.sectors_read, 4u);
  EXPECT_EQ(dense.warp_instructions, none.warp_instructions + 3);
  EXPECT_EQ(dense.instructions, none.instructions + 3 * 32);
  EXPECT_EQ(counts("ld.global.f32 %f1, [%rd1];").sectors_read, 1u);
  EXPECT_EQ(
      counts(
          "mul.wide.u32 %rd10, %r1, 128;\nadd.s64 %rd10, %rd10, %rd1;\nst.global.f32 [%rd10], %f1;")
          .sectors_written,
      32u);
  EXPECT_EQ(counts("mul.wide.u32 %rd10, %r1, 16;\nadd.s64 %rd10, %rd10, %rd1;\n"
                   "st.global.v4.f32 [%rd10], {%f1, %f1, %f1, %f1};")
                .sectors_written,
            16u);
}

}  // namespace
}  // namespace jitstep::tests
