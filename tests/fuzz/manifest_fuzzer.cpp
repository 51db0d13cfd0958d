// Reads arbitrary bytes as a rule, codec, weight format and gradient. The reader must succeed or throw with file and
// line.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "jit/manifest/manifest_reader.h"
#include "jitstep/jit/error.h"

using jitstep::jit::Manifest;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string content(reinterpret_cast<const char*>(data), size);
  using Kind = Manifest::Kind;
  for (const Kind kind : {Kind::rule, Kind::codec, Kind::weights, Kind::gradient}) {
    try {
      jitstep::jit::read_manifest(content, "mine.cuh", kind);
    } catch (const jitstep::jit::Error& error) {
      if (!std::string(error.what()).starts_with("mine.cuh:")) std::abort();
    }
  }
  return 0;
}
