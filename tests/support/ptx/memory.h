// The memory of devices, at addresses that no program of the host can use.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "support/ptx/program.h"
#include "support/ptx/shadow.h"

namespace jitstep::ptx {

/// Checks every access against the allocations. Not thread safe.
class Memory {
 public:
  /// Allocates `bytes` of garbage, aligned to 256 bytes. Gaps between allocations are larger than a tile of a tensor, so
  /// that an access beyond the end does not reach the next allocation.
  Address allocate(int device, std::size_t bytes);
  /// Returns false if the address was not allocated or is already freed.
  bool free(Address address);
  std::size_t allocations() const { return allocations_.size(); }

  /// The bytes at an address, after checks. Throws a Fault with the cause. `constant`: a read that requires that the
  /// launch does not write there.
  enum class Use { read, write, constant };
  std::byte* touch(Address address, std::size_t bytes, Use use, int device, const Here& here);

  /// Copies between a device's memory and the host's. Throws a Fault if the memory is not allocated, or if work that is
  /// not ordered before the copy uses it.
  void upload(Address to, const void* from, std::size_t bytes, const Here& here);
  void download(void* to, Address from, std::size_t bytes, const Here& here);
  void fill(Address to, unsigned char value, std::size_t bytes, const Here& here);

 private:
  struct Allocation {
    Address begin;
    std::size_t size;
    int device;
    std::vector<std::byte> bytes;
    Shadow shadow;
  };

  Allocation& find(Address address, std::size_t bytes);

  std::map<Address, std::unique_ptr<Allocation>> allocations_;
  Allocation* last_ = nullptr;
  Address next_ = kFirst;

  // Above the address space of programs on x86 and ARM (47 and 48 bits), so that the host cannot access it by mistake.
  static constexpr Address kFirst = Address{0x5} << 52;
};

}  // namespace jitstep::ptx
