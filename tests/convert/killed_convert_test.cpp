// `jitstep convert` that is killed while it replaces an archive.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>

#include "optim/training.h"
#include "support/child.h"

namespace jitstep::tests {
namespace {

using jitstep::testing::fail_system_calls;
using jitstep::testing::in_child;
using jitstep::testing::Traced;

// Kinds of system calls that change files.
const std::vector<std::vector<long>> kKinds = {{SYS_write, SYS_pwrite64, SYS_writev},
                                               {SYS_fsync, SYS_fdatasync},
#ifdef SYS_rename
                                               {SYS_rename, SYS_renameat, SYS_renameat2}};
#else
                                               {SYS_renameat, SYS_renameat2}};
#endif

class KilledConvert : public ::testing::Test {
 protected:
  // Saves an archive of three steps. A first conversion compiles the kernels that later ones take from the cache.
  void SetUp() override {
    AdamW optimizer(parameters_);
    train(optimizer, parameters_, 1, 3);
    optimizer.save(file_);
    old_ = text_of_file(file_);
    ASSERT_EQ(in_child([&]() -> std::string { convert(); }), "");
    ASSERT_TRUE(is_converted());
  }

  // Replaces this process by the tool, without its report.
  [[noreturn]] void convert() const {
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    ::execl(JITSTEP_TOOL, JITSTEP_TOOL, "convert", file_.c_str(), file_.c_str(), "--overwrite",
            "--state", "int8", nullptr);
    ::_exit(127);
  }

  void put_back() const { std::ofstream(file_, std::ios::binary | std::ios::trunc) << old_; }

  // Whether the file is the new archive. Otherwise it must be the old one, byte for byte.
  bool is_converted() const {
    const std::string now = text_of_file(file_);
    if (now == old_) return false;
    EXPECT_LT(now.size(), old_.size() / 2);
    AdamW optimizer(parameters_, AdamWOptions().state("int8"));
    const Warnings warnings;
    EXPECT_NO_THROW(optimizer.load(file_));
    EXPECT_EQ(warnings.all, "") << "no conversion must remain";
    EXPECT_EQ(optimizer.state().size(), parameters_.size());
    for (const auto& [key, state] : optimizer.state())
      EXPECT_EQ(static_cast<const ParamState&>(*state).step(), 3);
    return true;
  }

  const OwnFolder folder_;
  const std::string file_ = folder_.path + "/archive.pt";
  const Tensors parameters_ = make_parameters(torch::kFloat32, {{70, 60}, {64, 80}});
  std::string old_;
};

// At the first calls of each kind, and then at twice the number of calls, until none is left.
TEST_F(KilledConvert, AtAWriteASyncOrARenameLeavesTheOldOrTheNewArchive) {
  int kept = 0, replaced = 0;
  for (const std::vector<long>& calls : kKinds)
    for (int stop = 1;; stop *= 2) {
      ASSERT_LT(stop, 1 << 20);
      put_back();
      const Traced end = jitstep::testing::kill_at_stop(
          stop, [&] { convert(); }, calls);
      if (end == Traced::not_allowed) GTEST_SKIP() << "no tracing here: see AtTheFirstCall";
      const bool converted = is_converted();
      if (end == Traced::finished) {
        EXPECT_TRUE(converted);
        EXPECT_GT(stop, 2) << "no call of the kind " << calls[0];
        break;
      }
      ++(converted ? replaced : kept);
    }
  EXPECT_GT(kept, 4) << "two stops at a write and a sync, and one before the rename";
  EXPECT_GT(replaced, 0) << "the stop after the rename";
}

// The same without ptrace, which containers may forbid. This filter cannot count.
TEST_F(KilledConvert, AtTheFirstCallOfAKindKeepsTheOldArchive) {
  for (const std::vector<long>& calls : kKinds) {
    put_back();
    const std::string end = in_child([&]() -> std::string {
      if (!fail_system_calls(calls, 0)) return jitstep::testing::kNotAllowed;
      convert();
    });
    EXPECT_EQ(end, "killed by signal " + std::to_string(SIGSYS)) << "call " << calls[0];
    EXPECT_FALSE(is_converted()) << "call " << calls[0];
  }
}

}  // namespace
}  // namespace jitstep::tests
