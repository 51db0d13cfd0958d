// Recognizes ELF files.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <span>

namespace jitstep::jit {

/// Whether the bytes begin as an ELF file does: a shared object or a cubin, but not PTX.
inline bool begins_as_elf(std::span<const std::byte> bytes) {
  return bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
}

}  // namespace jitstep::jit
