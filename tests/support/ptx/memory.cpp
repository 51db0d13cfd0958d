#include "support/ptx/memory.h"

#include <cstring>
#include <iomanip>
#include <sstream>

namespace jitstep::ptx {
namespace {

constexpr Address kAlignment = 256, kGap = Address{1} << 20;
constexpr std::byte kGarbage{0xCD};

std::string hex(Address address) {
  std::ostringstream text;
  text << "0x" << std::hex << address;
  return text.str();
}

std::string bytes_at(std::size_t bytes, Address address) {
  return std::to_string(bytes) + " bytes at " + hex(address);
}

}  // namespace

Address Memory::allocate(int device, std::size_t bytes) {
  const Address begin = next_;
  next_ += (bytes + kGap + kAlignment - 1) / kAlignment * kAlignment;
  allocations_[begin] = std::make_unique<Allocation>(
      Allocation{begin, bytes, device, std::vector<std::byte>(bytes, kGarbage), Shadow(bytes)});
  return begin;
}

bool Memory::free(Address address) {
  last_ = nullptr;
  return allocations_.erase(address) != 0;
}

Memory::Allocation& Memory::find(Address address, std::size_t bytes) {
  const auto holds = [&](const Allocation& one) {
    return address >= one.begin && address - one.begin <= one.size &&
           bytes <= one.size - (address - one.begin);
  };
  if (last_ != nullptr && holds(*last_)) return *last_;
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin())
    throw Fault{kIllegalAddress, bytes_at(bytes, address) + " are not allocated"};
  Allocation& near = *std::prev(after)->second;
  if (!holds(near))
    throw Fault{kIllegalAddress, bytes_at(bytes, address) +
                                     " are not allocated: the preceding allocation has " +
                                     std::to_string(near.size) + " bytes and begins " +
                                     std::to_string(address - near.begin) + " bytes earlier"};
  return *(last_ = &near);
}

std::byte* Memory::touch(Address address, std::size_t bytes, Use use, int device,
                         const Here& here) {
  if (address % bytes != 0)
    throw Fault{kMisalignedAddress, bytes_at(bytes, address) + " are not aligned"};
  Allocation& there = find(address, bytes);
  if (there.device != device)
    throw Fault{kIllegalAddress,
                bytes_at(bytes, address) + " are memory of device " + std::to_string(there.device)};
  const std::size_t at = address - there.begin;
  switch (use) {
    case Use::write:
      there.shadow.write(at, bytes, here);
      break;
    case Use::constant:
      there.shadow.read_constant(at, bytes, here);
      break;
    default:
      there.shadow.read(at, bytes, here);
  }
  return there.bytes.data() + at;
}

void Memory::upload(Address to, const void* from, std::size_t bytes, const Here& here) {
  if (bytes == 0) return;
  Allocation& there = find(to, bytes);
  there.shadow.write(to - there.begin, bytes, here);
  std::memcpy(there.bytes.data() + (to - there.begin), from, bytes);
}

// A program may copy memory that was never written: it gets garbage, as on a GPU.
void Memory::download(void* to, Address from, std::size_t bytes, const Here& here) {
  if (bytes == 0) return;
  Allocation& there = find(from, bytes);
  there.shadow.download(from - there.begin, bytes, here);
  std::memcpy(to, there.bytes.data() + (from - there.begin), bytes);
}

void Memory::fill(Address to, unsigned char value, std::size_t bytes, const Here& here) {
  upload(to, std::vector<unsigned char>(bytes, value).data(), bytes, here);
}

}  // namespace jitstep::ptx
