#include "jit/cache/cache_entry.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "jit/cache/cache_fixtures.h"

namespace jitstep::jit {
namespace {

using testing::entry_of;
using testing::key_of;
using testing::payload_of;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kSchemaAt = 8, kHeaderLengthAt = 12, kHeaderAt = 20, kChecksum = 32;

template <class Int>
Int int_at(const Bytes& bytes, std::size_t at) {
  Int value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class Int>
void set_int(Bytes& bytes, std::size_t at, Int value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::size_t payload_length_at(const Bytes& bytes) {
  return kHeaderAt + int_at<std::uint64_t>(bytes, kHeaderLengthAt);
}

// Replaces the checksum, as a deliberate change of an entry would.
Bytes with_new_checksum(Bytes bytes) {
  bytes.resize(bytes.size() - kChecksum);
  const Digest checksum = sha256(bytes);
  bytes.insert(bytes.end(), checksum.begin(), checksum.end());
  return bytes;
}

TEST(CacheEntry, RoundTripsEveryField) {
  const CacheEntry entry = entry_of(std::string("pay\0load", 8));
  const auto found = decode_entry(encode_entry(key_of("a"), entry), key_of("a"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, entry.name);
  EXPECT_EQ(found->binary.image, entry.binary.image);
  EXPECT_EQ(found->binary.log, entry.binary.log);
  EXPECT_EQ(found->binary.resources, entry.binary.resources);
  EXPECT_EQ(found->compile_ms, entry.compile_ms);
  EXPECT_EQ(found->sources, entry.sources);
}

TEST(CacheEntry, AnyFlippedBitAndAnyChangedByteIsAMiss) {
  const Key key = key_of("a");
  const Bytes intact = encode_entry(key, entry_of("payload"));
  ASSERT_EQ(payload_of(decode_entry(intact, key)), "payload");
  for (std::size_t i = 0; i < intact.size(); ++i) {
    for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      Bytes damaged = intact;
      damaged[i] ^= std::byte(mask);
      EXPECT_FALSE(decode_entry(damaged, key)) << "byte " << i << " xor " << mask;
      header_of(damaged);  // may return anything, but must not crash
      schema_of(damaged);
    }
  }
}

TEST(CacheEntry, AnyCutAndAnythingAppendedIsAMiss) {
  const Key key = key_of("a");
  const Bytes intact = encode_entry(key, entry_of("payload"));
  for (std::size_t length = 0; length < intact.size(); ++length) {
    const auto cut = std::span(intact).first(length);
    EXPECT_FALSE(decode_entry(cut, key)) << "cut to " << length;
    EXPECT_FALSE(header_of(cut)) << "cut to " << length;
    EXPECT_FALSE(decode_entry(std::span(intact).subspan(intact.size() - length), key))
        << "the last " << length << " bytes";
  }
  for (const std::size_t more : {1, 7, 32, 4096}) {
    Bytes longer = intact;
    longer.resize(intact.size() + more);
    EXPECT_FALSE(decode_entry(longer, key)) << more << " zeros behind";
    longer = intact;
    longer.insert(longer.end(), intact.begin(), intact.end());
    EXPECT_FALSE(decode_entry(longer, key)) << "twice";
  }
}

TEST(CacheEntry, LengthsThatOverflowAreAMissEvenWithARightChecksum) {
  const Key key = key_of("a");
  const Bytes intact = encode_entry(key, entry_of("payload"));
  const std::uint64_t header = int_at<std::uint64_t>(intact, kHeaderLengthAt);
  const std::size_t payload_at = payload_length_at(intact);
  ASSERT_EQ(int_at<std::uint64_t>(intact, payload_at), 8u);
  constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 31, std::uint64_t{1} << 32,
        std::uint64_t{1} << 62, std::uint64_t{1} << 63, kTop, kTop - 19, kTop - 27, kTop - 32,
        intact.size() * std::uint64_t{1}}) {
    for (const std::size_t at : {kHeaderLengthAt, payload_at}) {
      Bytes damaged = intact;
      set_int(damaged, at, length);
      EXPECT_FALSE(decode_entry(with_new_checksum(damaged), key)) << length << " at " << at;
      EXPECT_FALSE(header_of(damaged)) << length << " at " << at;
    }
  }
  for (const std::uint64_t change : {std::uint64_t{1}, kTop, std::uint64_t{1} << 32}) {
    Bytes damaged = intact;
    set_int(damaged, kHeaderLengthAt, header + change);
    EXPECT_FALSE(decode_entry(with_new_checksum(damaged), key)) << change;
  }
}

TEST(CacheEntry, AnEmptyPayloadIsAMiss) {
  const Key key = key_of("a");
  CacheEntry empty = entry_of("");
  empty.binary.image.clear();
  EXPECT_FALSE(decode_entry(encode_entry(key, empty), key));
}

TEST(CacheEntry, AnEntryOfAnotherKeyIsAMissWhateverItsChecksum) {
  const Bytes other = encode_entry(key_of("b"), entry_of("payload"));
  EXPECT_FALSE(decode_entry(other, key_of("a")));
  // The same payload and a correct checksum do not help, because the header contains the key.
  EXPECT_FALSE(decode_entry(with_new_checksum(other), key_of("a")));
  Key key = key_of("b");
  key.target = Target::cuda(80);
  EXPECT_FALSE(decode_entry(other, key));
  key = key_of("b");
  key.compiler += "1";
  EXPECT_FALSE(decode_entry(other, key));
}

TEST(CacheEntry, AnotherSchemaIsAMissEvenWithARightChecksum) {
  const Key key = key_of("a");
  const Bytes intact = encode_entry(key, entry_of("payload"));
  EXPECT_EQ(schema_of(intact), std::uint32_t{kCacheSchema});
  for (const std::uint32_t schema : {0u, 1u, kCacheSchema + 1u, 0xffffffffu}) {
    Bytes other = intact;
    set_int(other, kSchemaAt, schema);
    other = with_new_checksum(other);
    EXPECT_FALSE(decode_entry(other, key)) << schema;
    EXPECT_FALSE(header_of(other)) << schema;
    EXPECT_EQ(schema_of(other), schema);
  }
}

TEST(CacheEntry, AnInvalidHeaderIsAMissEvenWithARightChecksum) {
  const Key key = key_of("a");
  const Bytes intact = encode_entry(key, entry_of("payload"));
  const auto end = intact.begin() + static_cast<std::ptrdiff_t>(payload_length_at(intact));
  const std::string header(reinterpret_cast<const char*>(intact.data()) + kHeaderAt,
                           int_at<std::uint64_t>(intact, kHeaderLengthAt));
  const auto with_header = [&](const std::string& text) {
    Bytes bytes(intact.begin(), intact.begin() + kHeaderAt);
    set_int<std::uint64_t>(bytes, kHeaderLengthAt, text.size());
    for (const char c : text) bytes.push_back(std::byte(c));
    bytes.insert(bytes.end(), end, intact.end());
    return with_new_checksum(bytes);
  };
  ASSERT_EQ(payload_of(decode_entry(with_header(header), key)), "payload");
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = header;
    EXPECT_NE(text.find(what), std::string::npos) << what;
    return text.replace(text.find(what), what.size(), by);
  };
  for (const std::string& bad :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"),
        std::string("\xff\xfe"), std::string(100000, '['), replaced("\"log\"", "\"gol\""),
        replaced("12.5", "\"fast\""), replaced("12.5", "1e999"), replaced("\"unit\"", "7"),
        replaced("\"registers\":40", "\"registers\":[]"),
        replaced("\"sources\":{", "\"sources\":[{"), replaced("sm_90", "sm_80"),
        replaced("sm_90", "nothing")}) {
    EXPECT_FALSE(decode_entry(with_header(bad), key)) << bad.substr(0, 300);
    header_of(with_header(bad));
  }
}

TEST(CacheEntry, ItsHeaderIsReadWithoutItsKey) {
  const Key key = key_of("a");
  const Bytes intact = encode_entry(key, entry_of("payload"));
  const auto header = header_of(intact);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->key, key);
  EXPECT_EQ(header->name, "unit");
  EXPECT_EQ(header->compile_ms, 12.5);
  EXPECT_EQ(header->sources, entry_of("").sources);
  const std::string all(reinterpret_cast<const char*>(intact.data()), intact.size());
  EXPECT_NE(all.find(key.canonical()), std::string::npos)
      << "the header contains the whole key as text";
}

TEST(CacheEntry, ItsHeaderIsReadFromTheStartOfTheFile) {
  const Bytes intact = encode_entry(key_of("a"), entry_of("payload"));
  const std::span all(intact);
  const std::uint64_t end = header_end(all.first(kShortestStart));
  ASSERT_EQ(end, payload_length_at(intact) + 8);
  for (std::size_t length = 0; length <= intact.size(); ++length) {
    const auto header = header_of(all.first(length), intact.size());
    EXPECT_EQ(header.has_value(), length >= end) << length;
    if (header) {
      EXPECT_EQ(header->key, key_of("a"));
    }
    EXPECT_EQ(header_end(all.first(length)), length < kShortestStart ? 0 : end) << length;
  }
  const auto start = all.first(static_cast<std::size_t>(end));
  const std::uint64_t whole = intact.size();
  for (const std::uint64_t size :
       {std::uint64_t{0}, end, end + 32, whole - 1, whole + 1, ~std::uint64_t{0}})
    EXPECT_FALSE(header_of(start, size)) << size;
}

TEST(CacheEntry, AHeaderOfImpossibleLengthHasNoEnd) {
  const Bytes intact = encode_entry(key_of("a"), entry_of("payload"));
  constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t length : {kLargestEntry + 1, kTop, kTop - 27}) {
    Bytes damaged = intact;
    set_int(damaged, kHeaderLengthAt, length);
    EXPECT_EQ(header_end(damaged), 0u) << length;
  }
  Bytes newer = intact;
  set_int<std::uint32_t>(newer, kSchemaAt, kCacheSchema + 1);
  EXPECT_EQ(header_end(newer), 0u);
}

// A kernel's file in a folder. The folder is the read-only cache, which never deletes damaged files, so that one file
// serves for all.
TEST(CacheEntry, OnDiskEveryFlippedByteAndEveryCutOfAKernelIsAMiss) {
  testing::TemporaryFolder folder;
  Engine(testing::settings_with_cache(folder.path()))
      .build(testing::adding_unit("1"), "unit", Target::cpu());
  const std::string path = testing::files_below(folder.path()).at(0);
  const std::string intact = testing::content_of(path);
  const Key key = header_of(bytes_of(intact)).value().key;
  testing::WarningCollector no_folder;
  DiskCache cache(testing::in("", folder.path()));
  ASSERT_TRUE(cache.find(key));
  const FileHandle file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  int served = 0;
  for (std::size_t i = 0; i < intact.size(); ++i) {
    const char flipped = static_cast<char>(intact[i] ^ (1 << i % 8));
    ASSERT_EQ(::pwrite(file.get(), &flipped, 1, static_cast<off_t>(i)), 1);
    served += cache.find(key) ? 1 : 0;
    ASSERT_EQ(::pwrite(file.get(), &intact[i], 1, static_cast<off_t>(i)), 1);
  }
  ASSERT_TRUE(cache.find(key)) << "whole again";
  for (std::size_t length = intact.size(); length-- > 0;) {
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(length)), 0);
    served += cache.find(key) ? 1 : 0;
  }
  EXPECT_EQ(served, 0);
  RecordProperty("bytes", static_cast<int>(intact.size()));
}

}  // namespace
}  // namespace jitstep::jit
