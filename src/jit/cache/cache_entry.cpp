#include "jit/cache/cache_entry.h"

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "jit/base/digest.h"
#include "jit/base/file_io.h"
#include "jit/compiler/resource_json.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using Bytes = std::span<const std::byte>;

constexpr char kMagic[8] = {'J', 'S', 'T', 'E', 'P', 'K', 'R', 'N'};
constexpr std::size_t kDigestSize = 32, kLengthSize = 8;

void put(std::vector<std::byte>& out, Bytes bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class Int>
void put_int(std::vector<std::byte>& out, Int value) {
  for (std::size_t i = 0; i < sizeof(Int); ++i) out.push_back(std::byte(value >> (8 * i) & 0xff));
}

// Reads from the front. `good` becomes and stays false if too few bytes are left.
struct Reader {
  Bytes rest;
  bool good = true;

  Bytes read(std::uint64_t count) {
    if (!good || count > rest.size()) {
      good = false;
      return {};
    }
    const Bytes front = rest.first(static_cast<std::size_t>(count));
    rest = rest.subspan(front.size());
    return front;
  }

  template <class Int>
  Int read_int() {
    Int value = 0;
    std::size_t shift = 0;
    for (std::byte byte : read(sizeof(Int))) {
      value |= static_cast<Int>(static_cast<Int>(byte) << shift);
      shift += 8;
    }
    return value;
  }
};

struct Parts {
  Bytes header;
  Bytes payload;
  Bytes checksum;
};

std::optional<std::uint32_t> read_schema(Reader& reader) {
  const Bytes magic = reader.read(sizeof kMagic);
  const auto schema = reader.read_int<std::uint32_t>();
  if (!reader.good || std::memcmp(magic.data(), kMagic, sizeof kMagic) != 0) return {};
  return schema;
}

// What precedes the payload.
struct Start {
  Bytes header;
  std::uint64_t payload_bytes = 0;
};

// Nothing if the lengths do not add up to a file of `file_bytes` bytes.
std::optional<Start> read_start_of(Reader& reader, std::uint64_t file_bytes) {
  const std::size_t all = reader.rest.size();
  if (read_schema(reader) != std::uint32_t{kCacheSchema}) return {};
  Start start;
  start.header = reader.read(reader.read_int<std::uint64_t>());
  start.payload_bytes = reader.read_int<std::uint64_t>();
  const std::uint64_t others = all - reader.rest.size() + kDigestSize;
  if (!reader.good || file_bytes <= others || start.payload_bytes != file_bytes - others) return {};
  return start;
}

std::optional<Parts> split(Bytes bytes) {
  Reader reader{bytes};
  const auto start = read_start_of(reader, bytes.size());
  if (!start) return {};
  return Parts{start->header, reader.read(start->payload_bytes), reader.read(kDigestSize)};
}

bool checksum_holds(Bytes bytes, const Parts& parts) {
  const Digest expected = sha256(bytes.first(bytes.size() - kDigestSize));
  return std::memcmp(parts.checksum.data(), expected.data(), kDigestSize) == 0;
}

CacheEntry entry_of(const json& header, Bytes payload) {
  CacheEntry entry;
  entry.name = header.at("name");
  entry.compile_ms = header.at("compile_ms");
  entry.binary.log = header.at("log");
  entry.sources = header.at("sources");
  entry.unit = header.value("unit", "");
  for (const json& one : header.at("resources")) {
    entry.binary.resources.push_back(resources_of(one));
  }
  entry.binary.image.assign(payload.begin(), payload.end());
  return entry;
}

}  // namespace

std::vector<std::byte> encode_entry(const Key& key, const CacheEntry& entry) {
  json header = {{"key", json::parse(key.canonical())},
                 {"name", entry.name},
                 {"compile_ms", entry.compile_ms},
                 {"log", entry.binary.log},
                 {"sources", entry.sources},
                 {"unit", entry.unit},
                 {"resources", json::array()}};
  for (const Resources& one : entry.binary.resources) header["resources"].push_back(json_of(one));
  const std::string head = header.dump(-1, ' ', false, json::error_handler_t::replace);
  std::vector<std::byte> out;
  put(out, std::as_bytes(std::span(kMagic)));
  put_int<std::uint32_t>(out, kCacheSchema);
  put_int<std::uint64_t>(out, head.size());
  put(out, bytes_of(head));
  put_int<std::uint64_t>(out, entry.binary.image.size());
  put(out, entry.binary.image);
  const Digest checksum = sha256(out);
  put(out, checksum);
  return out;
}

std::optional<CacheEntry> decode_entry(Bytes bytes, const Key& key) {
  const auto parts = split(bytes);
  if (!parts || !checksum_holds(bytes, *parts)) return {};
  try {
    const json header = json::parse(text_of(parts->header));
    if (header.at("key") != json::parse(key.canonical())) return {};
    return entry_of(header, parts->payload);
  } catch (const json::exception&) {
    return {};
  }
}

std::optional<EntryHeader> header_of(Bytes bytes) { return header_of(bytes, bytes.size()); }

std::optional<EntryHeader> header_of(Bytes start, std::uint64_t file_bytes) {
  Reader reader{start};
  const auto read = read_start_of(reader, file_bytes);
  if (!read) return {};
  try {
    const json header = json::parse(text_of(read->header));
    const json& key = header.at("key");
    const std::string target = key.at("target");
    return EntryHeader{{key.at("text"), parse_target(target), key.at("compiler")},
                       header.at("name"),
                       header.at("compile_ms"),
                       header.at("sources"),
                       header.value("unit", "")};
  } catch (const json::exception&) {
    return {};
  } catch (const Error&) {  // an unknown target
    return {};
  }
}

std::uint64_t header_end(Bytes start) {
  Reader reader{start};
  if (read_schema(reader) != std::uint32_t{kCacheSchema}) return 0;
  const auto header_bytes = reader.read_int<std::uint64_t>();
  if (!reader.good || header_bytes > kLargestEntry) return 0;
  return kShortestStart + header_bytes + kLengthSize;
}

std::optional<std::uint32_t> schema_of(Bytes bytes) {
  Reader reader{bytes};
  return read_schema(reader);
}

}  // namespace jitstep::jit
