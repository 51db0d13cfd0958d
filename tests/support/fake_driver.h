// A CUDA driver without a GPU: it records every call with its arguments, answers with any error it is
// told to, and keeps device memory in host memory. Streams are queues that run when a test lets them,
// in the order it chooses, so that whatever is not ordered by events goes wrong.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jit/engine/cuda_driver.h"
#include "jit/step/cuda_backend.h"
#include "jitstep/args.h"
#include "jitstep/jit/compiler.h"

namespace jitstep::support {

/// What a kernel found when it ran: by then its tables may have been overwritten or given to others.
struct FakeRun {
  std::string entry;
  int stream = 0;
  unsigned grid = 0, block = 0;
  Args args{};
  bool garbage = false;  // its tables were not its own any more
  long long t = 0;       // of the first of its sets
  std::vector<int> ids;  // of its items' tensors, each once
  std::vector<const void*> gradients;
};

/// One at a time is the driver that api() leads to. Not thread safe.
class FakeDriver {
 public:
  explicit FakeDriver(int devices = 2);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  /// The whole table; cuFuncLoad may be taken away, as old drivers lack it.
  static jit::CudaApi api();
  /// The names of all functions in the table that can fail, without those that describe errors.
  static const std::vector<std::string>& function_names();

  // ---- what was asked of it

  /// Such as "cuLaunchKernel jitstep_apply 3x128 stream 1", since the last clear().
  std::vector<std::string> calls;
  std::vector<std::string> calls_of(const std::string& name) const;
  /// Bytes of each copy, since the last clear(), and its stream.
  std::vector<std::pair<std::size_t, int>> copies;
  void clear();

  // ---- what it answers

  /// From now on, calls of that name answer `code`, `times` times, once `spared` have gone well.
  void fail(const std::string& name, int code, int spared = 0, int times = 1 << 30);
  void recover() { failing_.clear(); }
  int version = 13000;
  int multiprocessors = 4;
  std::array<int, 4> sm = {90, 90, 90, 90};  // of each device

  // ---- streams; 0 is the default one of device 0, 1 that of device 1, and so on

  int new_stream(int device = 0);
  void* handle(int stream);
  void set_capture(int stream, int status) { streams_[stream]->capture = status; }
  /// The program destroys it: a later use of it is an error, its work goes on.
  void destroy_stream(int stream) { streams_[stream]->alive = false; }
  /// Runs what is queued: the first stream of the list as far as it can go on, then the next; or all
  /// in turn, one piece of work each. Streams that are not named come last. A test failure if
  /// something waits for ever.
  void drain(std::vector<int> order = {}, bool in_turn = false);
  std::vector<FakeRun> runs;

  // ---- memory, as torch's allocator gives it: freed memory is soon overwritten

  std::shared_ptr<void> allocate(int stream, std::size_t bytes);
  void record_stream(const std::shared_ptr<void>& memory, int stream);
  /// Allocations that were not given back.
  int live_allocations() const { return live_; }
  /// Whether the n-th allocation from now on (counted from 0) throws std::bad_alloc.
  int allocations_to_failure = -1;

  // ---- what is open

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
    std::shared_ptr<bool> reached = nullptr;  // what was recorded last
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
  std::vector<Device*> contexts_;  // the current one is the last
  std::deque<Module> modules_;
  std::deque<Function> functions_;
  std::deque<Event> events_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::map<std::byte*, Allocation> memory_;
  int live_ = 0;
};

/// A program around a CudaBackend: its current stream and its allocator.
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

/// The head of a cubin, which is all that is looked at before the driver gets it.
std::vector<std::byte> fake_cubin(int sm);

/// A compiler whose binaries are such heads.
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
