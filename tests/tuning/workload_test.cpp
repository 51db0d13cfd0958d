#include "tuning/workload.h"

#include "jit/fixtures.h"

namespace jitstep::tuning {
namespace {

using jit::testing::error_of;

TEST(Workload, SizesMayHaveUnitsAndCounts) {
  EXPECT_EQ(parse_size("77"), (Shapes{{77}}));
  EXPECT_EQ(parse_size("4k"), (Shapes{{4096}}));
  EXPECT_EQ(parse_size("1.5M"), (Shapes{{3 << 19}}));
  EXPECT_EQ(parse_size("3x2K"), (Shapes{{2048}, {2048}, {2048}}));
  for (const char* wrong :
       {"", "k", "0", "-4", "4kk", "4 k", "1.3", "x4k", "4x", "1e3", "9999999999G", "99999999x1"})
    EXPECT_NE(error_of([&] { parse_size(wrong); }).find("as in 4k or 16M"), std::string::npos)
        << wrong;
}

TEST(Workload, AModelIsReadFromTheFirstShapesInAFile) {
  const jit::testing::TemporaryFolder folder;
  const std::string path = folder / "model.json";
  jit::testing::write_file(path, R"({"gpt": {"title": "t", "shapes": [[8, 4], [4]]}})");
  EXPECT_EQ(read_model(path), (Shapes{{8, 4}, {4}}));
  jit::testing::write_file(path, R"({"shapes": [[8, 0]]})");
  EXPECT_EQ(error_of([&] { read_model(path); }),
            "invalid shape [8,0] in " + path +
                ". Write each shape as a list of sizes, as in [768, 768].");
  std::string deep = R"({"shapes": )";
  for (const char bracket : {'[', ']'}) deep += std::string(100000, bracket);
  jit::testing::write_file(path, deep + "}");
  EXPECT_NE(error_of([&] { read_model(path); }).find("nested too deeply"), std::string::npos);
  for (const char* content : {"[]", "{}", R"({"shapes": []})"}) {
    jit::testing::write_file(path, content);
    EXPECT_NE(error_of([&] { read_model(path); }).find("has no shapes"), std::string::npos);
  }
  for (const char* content : {"", "{", "[[768, 768]"}) {
    jit::testing::write_file(path, content);
    EXPECT_NE(error_of([&] { read_model(path); }).find("not valid JSON"), std::string::npos);
  }
  EXPECT_THROW(read_model("/dev/zero"), jit::Error) << "it has no end";
  EXPECT_NE(error_of([&] { read_model(folder / "none"); }).find("cannot read"), std::string::npos);
}

TEST(Workload, TensorsAreGroupedByKernel) {
  TuningRequest request{.options = jit::OptionValues("adamw")};
  request.formats.state = jit::CodecChoice{"int8"};
  const auto all = workloads(request, {{512, 512}, {512}, {100}, {1024, 64}});
  ASSERT_EQ(all.size(), 2u) << "small tensors have float state";
  EXPECT_EQ(all[0].plan.name, "adamw_int8_float32");
  EXPECT_EQ(all[0].shapes, (Shapes{{512, 512}, {1024, 64}}));
  EXPECT_EQ(all[1].size(), (jit::WorkSize{612, 2}));
  EXPECT_EQ(all[1].name(), "adamw_fp32_float32, 2 tensors of 612 elements");
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  EXPECT_EQ(workloads(request, Shapes(256, {kLargest})).at(0).size().tensors, 256);
  EXPECT_THROW(workloads(request, Shapes(257, {kLargest})), jit::Error) << "bytes would overflow";
  request.gradient = jit::Dtype::bfloat16;
  EXPECT_EQ(workloads(request, {{4}}).at(0).plan.spec.gradient, jit::Dtype::bfloat16);
}

}  // namespace
}  // namespace jitstep::tuning
