#include "jit/base/file_io.h"

#include <fcntl.h>

#include <chrono>
#include <thread>

#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

using testing::TemporaryFolder;

TEST(FileIo, TheStampOfAFileChangesWithItsContentEvenIfSizeAndTimeStay) {
  TemporaryFolder folder;
  const std::string file = folder / "file";
  EXPECT_EQ(file_stamp(file), "");
  EXPECT_EQ(file_stamp(""), "");
  testing::write_file(file, "one");
  const std::string stamp = file_stamp(file);
  EXPECT_EQ(file_stamp(file), stamp);
  const auto time = testing::fs::last_write_time(file);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the system's clock has ticks
  testing::write_file(file, "two");
  testing::fs::last_write_time(file, time);
  EXPECT_NE(file_stamp(file), stamp);
}

TEST(FileIo, TheStartOfAFileHasAtMostTheGivenBytes) {
  TemporaryFolder folder;
  testing::write_file(folder / "file", "12345");
  const FileHandle file(::open((folder / "file").c_str(), O_RDONLY | O_CLOEXEC));
  const auto start = [&](std::size_t most) {
    return text_of(read_start(file.get(), most).value());
  };
  EXPECT_EQ(start(0), "");
  EXPECT_EQ(start(3), "123");
  EXPECT_EQ(start(3), "123") << "from the start each time";
  EXPECT_EQ(start(100), "12345");
  EXPECT_FALSE(read_start(-1, 3));
}

TEST(FileIo, RandomNumbersDiffer) {
  const auto first = random_number(), second = random_number();
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace jitstep::jit
