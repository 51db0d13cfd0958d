#include "support/ptx_driver/driver.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <iterator>

namespace jitstep::ptx::driver {
void join(Seen& to, const Seen& from) {
  for (const auto& [stream, launch] : from) to[stream] = std::max(to[stream], launch);
}

Driver::Driver() {
  for (const int sm : kDevices)
    devices.push_back({.ordinal = static_cast<int>(devices.size()), .sm = sm});
  for (Device& one : devices)
    default_streams_.push_back(std::make_unique<Stream>(Stream{&one, next_stream_++}));
}

Driver& the_driver() {
  static Driver& driver = *new Driver();
  return driver;
}

std::vector<Device*>& contexts() {
  thread_local std::vector<Device*> stack;
  return stack;
}

int Driver::admit(const std::string& call) {
  ++called[call];
  if (const auto found = failing.find(call); found != failing.end()) {
    if (found->second.second == 0) return found->second.first;
    --found->second.second;
  }
  const Device* const here = current();
  return here != nullptr ? here->broken : 0;
}

Device* Driver::current() const { return contexts().empty() ? nullptr : contexts().back(); }

Device* Driver::device(int ordinal) {
  return ordinal < 0 || ordinal >= std::ssize(devices)
             ? nullptr
             : &devices[static_cast<std::size_t>(ordinal)];
}

// ---- modules ------------------------------------------------------------------------------------

int Driver::load(void** module, const void* source) {
  Device* const here = current();
  if (here == nullptr) return kInvalidContext;
  if (const int code = refuse_in_captures(*here, false)) return code;
  const auto* const text = static_cast<const char*>(source);
  if (std::strncmp(text, "//", 2) != 0 && std::strncmp(text, ".version", 8) != 0)
    return kInvalidImage;
  auto made = std::make_unique<Module>(Module{here, {}});
  try {
    made->program = read_program(
        text, [&](const std::vector<std::byte>& image, const std::vector<Range>& variables) {
          made->globals = memory_.allocate(here->ordinal, image.size());
          Stream own{here, next_stream_++, false};
          work(own, [&](const Here& order) {
            for (const auto& [begin, end] : variables)
              memory_.upload(made->globals + begin, &image[begin], end - begin, order);
          });
          join(host_, own.seen);  // a loaded module is available to every stream
          return made->globals;
        });
  } catch (const PtxError& error) {
    std::cerr << "PTX: " << (fault = error.what()) << "\n";
    if (made->globals != 0) memory_.free(made->globals);
    return kInvalidPtx;
  }
  if (architecture(made->program) > here->sm) return kInvalidPtx;
  *module = modules_.insert(std::move(made)).first->get();
  return 0;
}

int Driver::unload(void* handle) {
  Module* const module = find(modules_, handle);
  if (module == nullptr) return kInvalidHandle;
  if (module->device != current()) return kInvalidContext;
  if (module->globals != 0) memory_.free(module->globals);
  std::erase_if(functions_, [&](const auto& function) { return function->module == module; });
  modules_.erase(modules_.find(handle));
  return 0;
}

int Driver::function(void** function, void* handle, const char* name) {
  Module* const module = find(modules_, handle);
  if (module == nullptr) return kInvalidHandle;
  const Function* const entry = module->program.entry(name);
  if (entry == nullptr) return kNotFound;
  auto made = std::make_unique<KernelFunction>(KernelFunction{module, entry});
  *function = functions_.insert(std::move(made)).first->get();
  return 0;
}

template <class Work>
int Driver::do_or_record(Stream& queue, Work&& work) {
  if (queue.captured == nullptr) return work(queue);
  if (queue.invalidated) return kCaptureInvalidated;
  queue.captured->work.push_back(std::forward<Work>(work));
  return 0;
}

int Driver::launch(void* handle, unsigned grid, unsigned block, void* on, void** params) {
  const KernelFunction* const function = find(functions_, handle);
  Stream* const queue = stream(on);
  if (function == nullptr || queue == nullptr) return kInvalidHandle;
  const Module& module = *function->module;
  if (module.device != current() || queue->device != current()) return kInvalidContext;
  if (const std::string problem = launch_problem(*function->entry, grid, block); !problem.empty()) {
    std::cerr << "PTX: " << (fault = problem) << "\n";
    return kInvalidValue;
  }
  std::vector<std::byte> values(function->entry->param_bytes);
  std::size_t given = 0;
  for (const Copy& param : function->entry->params)
    std::memcpy(&values[param.from], params[given++], param.bytes);
  return do_or_record(*queue, [=, this, &module](Stream& on_stream) {
    return work(on_stream, [&](const Here& here) {
      const Counts counts = execute({.program = module.program,
                                     .entry = *function->entry,
                                     .grid = grid,
                                     .block = block,
                                     .params = values.data(),
                                     .memory = memory_,
                                     .device = module.device->ordinal,
                                     .number = here.launch,
                                     .order = *here.order});
      launches.push_back({function->entry->name, module.device->ordinal, grid, block, counts});
    });
  });
}

// ---- memory -------------------------------------------------------------------------------------

int Driver::allocate(Address* memory, std::size_t bytes) {
  const Device* const here = current();
  if (here == nullptr) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  *memory = memory_.allocate(here->ordinal, bytes);
  return 0;
}

// Waits for all work of the device, like NVIDIA's driver.
int Driver::free(Address memory) {
  if (current() != nullptr) synchronize(*current());
  return memory_.free(memory) ? 0 : kInvalidValue;
}

int Driver::upload(Address to, const void* from, std::size_t bytes, void* on) {
  Stream* const queue = stream(on);
  if (queue == nullptr) return kInvalidHandle;
  return do_or_record(*queue, [=, this](Stream& stream) {
    return work(stream, [&](const Here& here) { memory_.upload(to, from, bytes, here); });
  });
}

int Driver::download(void* to, Address from, std::size_t bytes) {
  Stream* const queue = stream(nullptr);
  if (queue == nullptr) return kInvalidContext;
  const int code = work(*queue, [&](const Here& here) { memory_.download(to, from, bytes, here); });
  synchronize(*queue);
  return code;
}

int Driver::fill(Address to, unsigned char value, std::size_t bytes) {
  Stream* const queue = stream(nullptr);
  if (queue == nullptr) return kInvalidContext;
  return work(*queue, [&](const Here& here) { memory_.fill(to, value, bytes, here); });
}

// ---- order --------------------------------------------------------------------------------------

// A device's default stream and its blocking streams wait for each other.
void Driver::arrange(Stream& queue) {
  join(queue.seen, host_);
  Stream& main = *default_streams_[static_cast<std::size_t>(queue.device->ordinal)];
  if (&queue != &main) {
    if (queue.waits_for_default) join(queue.seen, main.seen);
    return;
  }
  for (const auto& other : streams_)
    if (other->device == queue.device && other->waits_for_default) join(queue.seen, other->seen);
}

bool Driver::is_over(const Stream& queue, std::uint32_t launch) const {
  const auto seen = queue.seen.find(stream_of_[launch]);
  return seen != queue.seen.end() && seen->second >= launch;
}

// The first launch that has not finished for a stream. Returns the next launch if all have.
std::uint32_t Driver::first_open(const Stream& queue, std::uint32_t launch) const {
  std::uint32_t first = launch;
  for (const auto& [number, all] : work_of_) {
    const auto seen = queue.seen.find(number);
    const auto open =
        std::upper_bound(all.begin(), all.end(), seen == queue.seen.end() ? 0 : seen->second);
    if (open != all.end()) first = std::min(first, *open);
  }
  return first;
}

template <class Does>
int Driver::work(Stream& queue, const Does& does) {
  arrange(queue);
  const auto number = static_cast<std::uint32_t>(stream_of_.size());
  const Order order{.below = first_open(queue, number),
                    .before = [&](std::uint32_t launch) { return is_over(queue, launch); }};
  stream_of_.push_back(queue.number);
  work_of_[queue.number].push_back(number);
  try {
    does(Here{.launch = number, .order = &order});
  } catch (const Fault& what) {
    return broken(*queue.device, what);
  }
  queue.seen[queue.number] = number;
  return 0;
}

int Driver::broken(Device& device, const Fault& what) {
  fault = what.what;
  std::cerr << "PTX: " << fault << "\n";
  return device.broken = what.code;
}

Stream* Driver::stream(void* handle) {
  if (handle != nullptr) return find(streams_, handle);
  return current() == nullptr
             ? nullptr
             : default_streams_[static_cast<std::size_t>(current()->ordinal)].get();
}

int Driver::create_stream(void** handle, unsigned flags) {
  constexpr unsigned kNonBlocking = 1;
  if (current() == nullptr) return kInvalidContext;
  auto made =
      std::make_unique<Stream>(Stream{current(), next_stream_++, (flags & kNonBlocking) == 0});
  *handle = streams_.insert(std::move(made)).first->get();
  return 0;
}

// The stream's work continues, and synchronizing the device still waits for it.
int Driver::destroy_stream(void* handle) {
  const Stream* const old = find(streams_, handle);
  if (old == nullptr) return kInvalidHandle;
  join(of_destroyed_[old->device->ordinal], old->seen);
  if (old->waits_for_default)
    join(default_streams_[static_cast<std::size_t>(old->device->ordinal)]->seen, old->seen);
  streams_.erase(streams_.find(handle));
  return 0;
}

int Driver::synchronize(Stream& queue) {
  if (queue.captured != nullptr) return kCaptureUnsupported;
  arrange(queue);
  join(host_, queue.seen);
  return queue.device->broken;
}

int Driver::synchronize(const Device& device) {
  join(host_, default_streams_[static_cast<std::size_t>(device.ordinal)]->seen);
  join(host_, of_destroyed_[device.ordinal]);
  for (const auto& other : streams_)
    if (other->device == &device) join(host_, other->seen);
  return device.broken;
}

Open Driver::open() const {
  return {.allocations = memory_.allocations(),
          .modules = modules_.size(),
          .events = events_.size(),
          .streams = streams_.size(),
          .contexts = contexts().size()};
}

}  // namespace jitstep::ptx::driver
