// The memory of devices, at addresses that no program of the host can use.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "support/ptx/program.h"
#include "support/ptx/shadow.h"

namespace jitstep::ptx {

/// Every access is checked against what was allocated. Not thread safe.
class Memory {
 public:
  /// `bytes` of garbage, aligned to 256 bytes and with gaps to its neighbours.
  Address allocate(int device, std::size_t bytes);
  /// Whether it was allocated, and not freed yet.
  bool free(Address address);
  std::size_t allocations() const { return allocations_.size(); }

  /// The bytes at an address, checked: a Fault says what is wrong. `constant`: reads for which nobody writes.
  enum class Use { read, write, constant };
  std::byte* touch(Address address, std::size_t bytes, Use use, int device, const Here& here);

  /// Copies between a device's memory and the host's. A Fault if it was not allocated, or is being used.
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

  // Above what x86 and ARM give to programs (47 and 48 bits), so that the host cannot reach it by mistake.
  static constexpr Address kFirst = Address{0x5} << 52;
};

}  // namespace jitstep::ptx
