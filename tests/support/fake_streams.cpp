// Streams and memory of the fake driver.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "jit/base/args.h"
#include "support/fake_driver.h"

namespace jitstep::support {

int FakeDriver::new_stream(int device) {
  const int number = static_cast<int>(streams_.size());
  streams_.push_back(
      std::make_unique<Stream>(Stream{&devices_[static_cast<std::size_t>(device)], number}));
  return number;
}

void* FakeDriver::handle(int stream) { return streams_[static_cast<std::size_t>(stream)].get(); }

FakeDriver::Stream* FakeDriver::stream_of(void* handle) {
  for (const auto& stream : streams_)
    if (stream.get() == handle && stream->alive) return stream.get();
  return nullptr;
}

std::shared_ptr<bool> FakeDriver::record(Stream& stream) {
  auto reached = std::make_shared<bool>(false);
  stream.queue.push_back([reached] { return *reached = true; });
  return reached;
}

void FakeDriver::drain(std::vector<int> order, bool in_turn) {
  for (const auto& stream : streams_)
    if (std::find(order.begin(), order.end(), stream->number) == order.end())
      order.push_back(stream->number);
  const auto can_go_on = [&](int number) {
    auto& queue = streams_[static_cast<std::size_t>(number)]->queue;
    if (queue.empty() || !queue.front()()) return false;
    queue.pop_front();
    return true;
  };
  const auto a_round = [&] { return std::count_if(order.begin(), order.end(), can_go_on) > 0; };
  const auto the_first = [&] { return std::any_of(order.begin(), order.end(), can_go_on); };
  while (in_turn ? a_round() : the_first()) {
  }
  for (const auto& stream : streams_)
    EXPECT_TRUE(stream->queue.empty()) << "stream " << stream->number << " waits forever";
}

std::shared_ptr<void> FakeDriver::allocate(int stream, std::size_t bytes) {
  if (allocations_to_failure >= 0 && allocations_to_failure-- == 0) throw std::bad_alloc();
  Allocation made{std::make_unique<std::byte[]>(bytes + 1), bytes, stream};
  std::byte* const data = made.bytes.get();
  std::memset(data, 0xCD, bytes);
  memory_.emplace(data, std::move(made));
  ++live_;
  return {data, [this](void* p) { give_back(static_cast<std::byte*>(p)); }};
}

void FakeDriver::record_stream(const std::shared_ptr<void>& memory, int stream) {
  memory_.at(static_cast<std::byte*>(memory.get())).shared.push_back(stream);
}

// The next owner writes to the memory on the stream it was allocated for, after all other streams have finished with
// it.
void FakeDriver::give_back(std::byte* data) {
  Allocation& allocation = memory_.at(data);
  allocation.live = false;
  --live_;
  std::vector<std::shared_ptr<bool>> others;
  for (int stream : allocation.shared)
    others.push_back(record(*streams_[static_cast<std::size_t>(stream)]));
  streams_[static_cast<std::size_t>(allocation.stream)]->queue.push_back(
      [data, others, size = allocation.size] {
        for (const auto& reached : others)
          if (!*reached) return false;
        std::memset(data, 0xDD, size);
        return true;
      });
}

bool FakeDriver::owns(const void* from, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(from);
  return std::any_of(memory_.begin(), memory_.end(), [&](const auto& entry) {
    return entry.second.live && entry.first <= begin &&
           begin + bytes <= entry.first + entry.second.size;
  });
}

// A kernel that only reads its tables.
void FakeDriver::run(FakeRun run) {
  const Args& args = run.args;
  // Bytes from an address to the end of its allocation.
  const auto room = [&](const void* table) -> long long {
    auto* const start = static_cast<std::byte*>(const_cast<void*>(table));
    auto found = memory_.upper_bound(start);
    if (found == memory_.begin()) return 0;
    --found;
    return found->first + found->second.size - start;
  };
  const auto fits = [&](const void* table, long long index, std::size_t size) {
    return index >= 0 && (index + 1) * static_cast<long long>(size) <= room(table);
  };
  run.garbage = !fits(args.items, args.item_count - 1, sizeof(Item)) ||
                !fits(args.hyper_params, 0, sizeof(HyperParams));
  if (!run.garbage) run.t = args.hyper_params[0].t;
  for (long long i = 0; i < args.item_count && !run.garbage; ++i) {
    const int tensor = args.items[i].tensor;
    if (args.items[i].reduction_layout == kGlobalLayout) continue;
    run.garbage = !fits(args.tensors, tensor, sizeof(TensorRecord)) ||
                  !fits(args.steps, tensor, sizeof(StepRecord));
    if (run.garbage) break;
    const int index = args.steps[tensor].hyper_index;
    run.garbage = index >= 0 && !fits(args.hyper_params, index, sizeof(HyperParams));
    if (run.garbage) break;
    const int id = args.tensors[tensor].id;
    if (std::find(run.ids.begin(), run.ids.end(), id) != run.ids.end()) continue;
    run.ids.push_back(id);
    run.gradients.push_back(args.steps[tensor].g);
  }
  runs.push_back(std::move(run));
}

}  // namespace jitstep::support
