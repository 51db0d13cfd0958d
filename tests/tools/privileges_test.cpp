// The tool as a program with another user's rights.
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "jit/fixtures.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

// The caller of a set-user-ID program must not choose which compiler it runs, and which kernels it loads.
TEST(Privileges, OfAnotherUserHideTheEnvironment) {
  const testing::TemporaryFolder folder;
  struct statvfs disk {};
  ASSERT_EQ(::statvfs(folder.path().c_str(), &disk), 0);
  if (::geteuid() != 0 || (disk.f_flag & ST_NOSUID) != 0)
    GTEST_SKIP() << "needs root, and a disk with set-user-ID programs";
  constexpr uid_t kOther = 65534;
  const std::string tool = folder / "jitstep", named = folder / "named";
  testing::fs::copy_file(JITSTEP_TOOL, tool);
  const auto report = [&] {
    return run_program({tool, "doctor"}, "", own_variables({{"JITSTEP_CACHE_DIR", named}})).output;
  };
  const std::string plain = report();
  EXPECT_NE(plain.find(named), std::string::npos) << plain;
  ASSERT_EQ(::chown(tool.c_str(), kOther, kOther), 0);
  ASSERT_EQ(::chmod(tool.c_str(), 04755), 0);
  const std::string of_other = report();
  EXPECT_EQ(of_other.find(named), std::string::npos) << of_other;
  EXPECT_NE(of_other.find("cached in memory only"), std::string::npos) << of_other;
}

}  // namespace
}  // namespace jitstep::jit
