// How much of the files a search and a list read, and which entry a search uses.
#include <sys/stat.h>

#include "jit/cache/cache_fixtures.h"

namespace jitstep::jit {
namespace {

using namespace testing;

constexpr int kEntries = 8;
constexpr std::uint64_t kPayload = 1 << 20;

// The bytes that this process has read from files so far. Nothing if the system does not count them.
std::optional<std::uint64_t> bytes_read() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  std::uint64_t count = 0;
  if (!(counters >> name >> count) || name != "rchar:") return {};
  return count;
}

// Entries of one source by compilers of rising rank.
class HeaderReads : public ::testing::Test {
 protected:
  HeaderReads() {
    for (int i = 1; i <= kEntries; ++i)
      cache.publish(key(i), entry_of(payload(i) + std::string(kPayload, 'x')));
  }

  static Key key(int rank) {
    Key made = key_of("a");
    made.compiler = std::to_string(rank);
    return made;
  }
  static std::string payload(int rank) { return "payload " + std::to_string(rank) + " "; }

  std::string file(int rank) const { return entry_path(folder.path(), key(rank)); }

  // The rank of the entry that a search uses. 0: none.
  int found_rank() {
    const auto found = cache.find_best(key_of("a"), [](auto& of) { return std::stoi(of); });
    if (!found) return 0;
    EXPECT_TRUE(payload_of(found).starts_with(payload(found->rank)));
    EXPECT_EQ(found->key, key(found->rank));
    return found->rank;
  }

  template <class Work>
  std::uint64_t read_by(const Work& work) {
    const std::uint64_t before = bytes_read().value_or(0);
    work();
    return bytes_read().value_or(0) - before;
  }

  TemporaryFolder folder;
  DiskCache cache = DiskCache(in(folder.path()));
};

TEST_F(HeaderReads, ASearchReadsOneFileAndTheHeadersOfTheOthers) {
  if (!bytes_read()) GTEST_SKIP() << "this system does not count what a process reads";
  const auto read = read_by([&] { EXPECT_EQ(found_rank(), kEntries); });
  EXPECT_GE(read, kPayload);
  EXPECT_LT(read, 2 * kPayload);
}

TEST_F(HeaderReads, AListReadsOnlyHeadersUnlessItChecks) {
  if (!bytes_read()) GTEST_SKIP() << "this system does not count what a process reads";
  EXPECT_LT(read_by([&] { EXPECT_EQ(cache.list(false).size(), 1u * kEntries); }), kPayload);
  EXPECT_GE(read_by([&] { cache.list(true); }), kEntries * kPayload);
}

TEST_F(HeaderReads, TheNextRankIsUsedIfAFileIsDamaged) {
  std::string bytes = testing::content_of(file(kEntries));
  bytes[bytes.size() / 2] ^= 1;
  testing::write_file(file(kEntries), bytes);
  EXPECT_EQ(found_rank(), kEntries - 1);
}

TEST_F(HeaderReads, TheNextRankIsUsedIfOthersMayWriteToAFile) {
  ASSERT_EQ(::chmod(file(kEntries).c_str(), 0666), 0);
  EXPECT_EQ(found_rank(), kEntries - 1);
}

TEST_F(HeaderReads, AFileThatIsCutOrTooLongIsListedAsDamaged) {
  testing::fs::resize_file(file(1), testing::fs::file_size(file(1)) - 1);
  testing::fs::resize_file(file(2), testing::fs::file_size(file(2)) + 1);
  testing::fs::resize_file(file(3), 5);
  int damaged = 0;
  for (const ListedEntry& entry : cache.list(false)) damaged += entry.problem == "damaged" ? 1 : 0;
  EXPECT_EQ(damaged, 3);
}

TEST_F(HeaderReads, AHeaderMayHaveAnyLength) {
  CacheEntry entry = entry_of("long");
  entry.binary.log = std::string(300000, 'l');
  cache.publish(key_of("b"), entry);
  EXPECT_EQ(payload_of(cache.find_best(key_of("b"), [](auto&) { return 1; })), "long");
  for (const ListedEntry& listed : cache.list(false)) EXPECT_EQ(listed.problem, "");
}

}  // namespace
}  // namespace jitstep::jit
