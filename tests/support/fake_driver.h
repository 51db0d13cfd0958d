// A CUDA driver without a GPU. It records every call with its arguments, returns any error that a test sets, and stores
// device memory in host memory. Streams are queues that run when a test drains them, in an order that the test chooses.
// Accesses that events do not order therefore fail.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jit/base/args.h"
#include "jit/engine/cuda_driver.h"
#include "jit/step/cuda_backend.h"
#include "jitstep/jit/compiler.h"

namespace jitstep::support {

/// The memory that a kernel saw when it ran. By then its tables may have been overwritten or reused.
struct FakeRun {
  std::string entry;
  int stream = 0;
  unsigned grid = 0, block = 0;
  Args args{};
  bool garbage = false;  // its tables were no longer its own
  long long t = 0;       // of its first HyperParams
  std::vector<int> ids;  // of its items' tensors, without duplicates
  std::vector<const void*> gradients;
};

/// api() uses the one instance that exists. Not thread safe.
class FakeDriver {
 public:
  explicit FakeDriver(int devices = 2);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  /// The whole table. A test may remove cuFuncLoad, which old drivers lack.
  static jit::CudaApi api();
  /// The names of all functions in the table that can fail, except those that describe errors.
  static const std::vector<std::string>& function_names();

  // ---- recorded calls

  /// Calls since the last clear(), such as "cuLaunchKernel jitstep_apply 3x128 stream 1".
  std::vector<std::string> calls;
  std::vector<std::string> calls_of(const std::string& name) const;
  /// Bytes and stream of each copy since the last clear().
  std::vector<std::pair<std::size_t, int>> copies;
  void clear();

  // ---- answers

  /// Lets calls of that name return `code`, `times` times, after `spared` successful ones.
  void fail(const std::string& name, int code, int spared = 0, int times = 1 << 30);
  void recover() { failing_.clear(); }
  int version = 13000;
  int multiprocessors = 4;
  std::array<int, 4> sm = {90, 90, 90, 90};  // per device

  // ---- streams: 0 is the default stream of device 0, 1 that of device 1, and so on

  int new_stream(int device = 0);
  void* handle(int stream);
  void set_capture(int stream, int status) { streams_[stream]->capture = status; }
  /// The program destroys the stream. Its work continues, but a later use of it is an error.
  void destroy_stream(int stream) { streams_[stream]->alive = false; }
  /// Runs the queues: the first stream of the list as far as possible, then the next. With `in_turn`, all streams
  /// alternate after each piece of work. Streams that are not in the list come last. Adds a test failure if something
  /// waits forever.
  void drain(std::vector<int> order = {}, bool in_turn = false);
  std::vector<FakeRun> runs;

  // ---- memory, like torch's allocator: freed memory is soon overwritten

  std::shared_ptr<void> allocate(int stream, std::size_t bytes);
  void record_stream(const std::shared_ptr<void>& memory, int stream);
  /// Allocations that are not freed.
  int live_allocations() const { return live_; }
  /// The number of allocations that succeed before one throws std::bad_alloc. -1: none throws.
  int allocations_to_failure = -1;

  // ---- open resources

  int loaded_modules() const;
  int live_events() const;
  std::size_t context_depth() const { return contexts_.size(); }
  /// Makes a device's primary context the current one, or none with -1.
  void set_current_context(int device);
  void* context(int device) { return &devices_[device]; }
  std::string last_image;

 private:
  friend struct FakeFunctions;
  struct Device {
    int ordinal;
  };
  struct Module {
    Device* device;
    bool loaded = true;
  };
  struct Function {
    Module* module;
    std::string name;
  };
  using Work = std::function<bool()>;  // false: it must wait
  struct Stream {
    Device* device;
    int number;
    int capture = 0;
    bool alive = true;
    std::deque<Work> queue = {};
  };
  struct Event {
    Device* device;
    bool alive = true;
    std::shared_ptr<bool> reached = nullptr;  // set by the last record
  };
  struct Allocation {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;
    int stream;
    std::vector<int> shared = {};
    bool live = true;
  };

  int did(const std::string& name, const std::string& arguments = {});
  Stream* stream_of(void* handle);
  bool owns(const void* from, std::size_t bytes) const;
  std::shared_ptr<bool> record(Stream& stream);
  void give_back(std::byte* data);
  void run(FakeRun run);

  struct Failure {
    int code, spared, times;
  };
  std::map<std::string, Failure> failing_;
  std::deque<Device> devices_;
  std::vector<Device*> contexts_;  // the last one is current
  std::deque<Module> modules_;
  std::deque<Function> functions_;
  std::deque<Event> events_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::map<std::byte*, Allocation> memory_;
  int live_ = 0;
};

/// The program around a CudaBackend: its current stream and its allocator.
class FakeHost : public jit::CudaHost {
 public:
  FakeHost(FakeDriver& driver, int stream) : current(stream), driver_(driver) {}
  void* stream() override { return driver_.handle(current); }
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    return driver_.allocate(current, bytes);
  }
  void record_stream(const std::shared_ptr<void>& memory) override {
    driver_.record_stream(memory, current);
  }

  int current;

 private:
  FakeDriver& driver_;
};

/// The header of a cubin. The library reads no more before it passes it to the driver.
std::vector<std::byte> fake_cubin(int sm);

/// A compiler whose binaries are such headers.
class FakeCompiler : public jit::Compiler {
 public:
  jit::Binary compile(const std::string&, const std::string&, const jit::Target& target) override {
    return {fake_cubin(target.sm), "", {}};
  }
  const std::string& identity(const jit::Target&) override { return identity_; }

 private:
  std::string identity_ = "fake";
};

}  // namespace jitstep::support
