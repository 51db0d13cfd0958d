// An allocator that counts and limits what torch allocates, and forwards each request.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <limits>

namespace jitstep::tests {

/// Counts the memory that torch allocates on the CPU while this object exists.
class CountedMemory : public c10::Allocator {
 public:
  /// `most`: the number of allocations that succeed. Later ones throw a c10::Error.
  explicit CountedMemory(int most = std::numeric_limits<int>::max())
      : most_(most), whole_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, 1);
  }
  ~CountedMemory() override { c10::SetCPUAllocator(whole_, 1); }

  c10::DataPtr allocate(std::size_t bytes) override {
    TORCH_CHECK(count < most_, "out of memory");
    ++count;
    largest = std::max(largest, bytes);
    return whole_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return whole_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    whole_->copy_data(to, from, bytes);
  }

  int count = 0;
  std::size_t largest = 0;  // bytes of one allocation

 private:
  int most_;
  c10::Allocator* whole_;
};

}  // namespace jitstep::tests
