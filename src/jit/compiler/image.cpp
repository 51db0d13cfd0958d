#include "jit/compiler/image.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "jit/base/elf.h"
#include "jit/base/text.h"

namespace jitstep::jit {
namespace {

using Bytes = std::span<const std::byte>;

constexpr int kCudaMachine = 190;  // EM_CUDA
#if defined(__x86_64__)
constexpr int kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kHostMachine = EM_AARCH64;
#else
#error "jitstep knows x86-64 and aarch64"
#endif

bool lies_in(Bytes image, std::uint64_t at, std::uint64_t size) {
  return at <= image.size() && size <= image.size() - at;
}

// Copies `count` structs, because they may be unaligned. Nothing if they extend beyond the end.
template <class T>
std::optional<std::vector<T>> table(Bytes image, std::uint64_t at, std::uint64_t count) {
  if (count > image.size() / sizeof(T) || !lies_in(image, at, count * sizeof(T))) return {};
  std::vector<T> rows(count);
  if (count > 0) std::memcpy(rows.data(), image.data() + at, count * sizeof(T));
  return rows;
}

struct Elf {
  Elf64_Ehdr head{};
  std::vector<Elf64_Shdr> sections;
};

bool is_elf(Bytes image) { return image.size() >= sizeof(Elf64_Ehdr) && begins_as_elf(image); }

// Reads the file's structure. Returns the part that extends beyond the end, or empty.
std::string read(Bytes image, Elf& elf) {
  std::memcpy(&elf.head, image.data(), sizeof elf.head);
  const auto cut = [&](const char* what) {
    return str_cat("it is truncated: ", what, " beyond its ", image.size(), " bytes");
  };
  const auto segments = table<Elf64_Phdr>(image, elf.head.e_phoff, elf.head.e_phnum);
  auto sections = table<Elf64_Shdr>(image, elf.head.e_shoff, elf.head.e_shnum);
  if (!segments || !sections) return cut("its headers extend");
  for (const Elf64_Phdr& one : *segments)
    if (!lies_in(image, one.p_offset, one.p_filesz)) return cut("a segment extends");
  for (const Elf64_Shdr& one : *sections)
    if (one.sh_type != SHT_NOBITS && !lies_in(image, one.sh_offset, one.sh_size))
      return cut("a section extends");
  elf.sections = std::move(*sections);
  return {};
}

// True for functions that other objects can call. Old linkers export _init and _fini from every object.
bool is_entry(Bytes image, const Elf64_Sym& symbol, const Elf64_Shdr& names) {
  const int type = ELF64_ST_TYPE(symbol.st_info);
  const bool function = (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF;
  if (!function || symbol.st_name >= names.sh_size) return false;
  if (!lies_in(image, names.sh_offset, names.sh_size)) return false;  // it has no bytes in the file
  const Bytes rest =
      image.subspan(names.sh_offset + symbol.st_name, names.sh_size - symbol.st_name);
  const std::string_view name(reinterpret_cast<const char*>(rest.data()), rest.size());
  return !name.starts_with(std::string_view("_init\0", 6)) &&
         !name.starts_with(std::string_view("_fini\0", 6));
}

bool has_entry(Bytes image, const Elf& elf) {
  for (const Elf64_Shdr& section : elf.sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= elf.sections.size()) continue;
    const auto symbols =
        table<Elf64_Sym>(image, section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
    for (const Elf64_Sym& symbol : *symbols)
      if (is_entry(image, symbol, elf.sections[section.sh_link])) return true;
  }
  return false;
}

std::string host_problem(Bytes image) {
  Elf elf;
  if (!is_elf(image)) return "it is not a shared object";
  if (std::string problem = read(image, elf); !problem.empty()) return problem;
  if (elf.head.e_machine != kHostMachine || elf.head.e_type != ET_DYN)
    return "it is not a shared object for this machine";
  return has_entry(image, elf) ? "" : "it defines no function";
}

std::string cuda_problem(Bytes image, const Target& target) {
  if (!is_elf(image)) {
    // PTX is text. The driver requires a terminating zero.
    if (!image.empty() && image.back() == std::byte{0}) return {};
    return "it is neither a cubin nor PTX";
  }
  Elf elf;
  if (std::string problem = read(image, elf); !problem.empty()) return problem;
  // The position of the architecture in the flags depends on the ELF version: check both bytes.
  const auto sm = static_cast<unsigned>(target.sm);
  const unsigned flags = elf.head.e_flags;
  const bool fits =
      elf.head.e_machine == kCudaMachine && ((flags & 0xff) == sm || (flags >> 8 & 0xff) == sm);
  return fits ? "" : "it is not a cubin for " + to_string(target);
}

}  // namespace

std::string image_problem(Bytes image, const Target& target) {
  return target.is_cuda() ? cuda_problem(image, target) : host_problem(image);
}

}  // namespace jitstep::jit
