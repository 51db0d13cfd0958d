// The state behind the driver's functions: devices, modules, streams, and the order of their work.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "support/ptx/machine.h"
#include "support/ptx_driver/control.h"

namespace jitstep::ptx::driver {

// Values of CUresult.
inline constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidImage = 200,
                     kInvalidContext = 201, kInvalidPtx = 218, kInvalidHandle = 400,
                     kNotFound = 500, kIllegalState = 401, kCaptureUnsupported = 900,
                     kCaptureInvalidated = 901, kCaptureIsolation = 905, kCapturedEvent = 907;

struct Device {
  int ordinal = 0, sm = 0;
  int broken = 0;  // error that every later call returns
};

struct Module {
  Device* device;
  Program program;
  Address globals = 0;
};

struct KernelFunction {
  Module* module;
  const Function* entry;
};

/// The progress of each stream, by the number of its last finished launch.
using Seen = std::map<int, std::uint32_t>;
void join(Seen& to, const Seen& from);

struct Stream;

/// Work that was recorded instead of executed. A copy reads its source at each replay.
struct Graph {
  std::vector<std::function<int(Stream&)>> work = {};
};

struct Stream {
  Device* device;
  int number;
  bool waits_for_default = true;  // created without CU_STREAM_NON_BLOCKING
  Seen seen = {};
  std::unique_ptr<Graph> captured = {};  // the graph that it records during a capture
  bool relaxed = false;                  // the capture allows calls that may wait for the device
  bool invalidated = false;              // a forbidden call has ended the recording

  /// CUstreamCaptureStatus
  int capture_status() const { return invalidated ? 2 : captured != nullptr; }
};

struct Event {
  Seen seen = {};
  bool captured = false;  // recorded in a capture, so it never completes
};

/// One per process. Its functions are called one at a time.
class Driver {
 public:
  Driver();

  /// The error that a call must return immediately, or 0.
  int admit(const std::string& call);
  Device* current() const;
  Device* device(int ordinal);

  int load(void** module, const void* image);
  int unload(void* module);
  int function(void** function, void* module, const char* name);
  int launch(void* function, unsigned grid, unsigned block, void* stream, void** params);

  int allocate(Address* memory, std::size_t bytes);
  int free(Address memory);
  /// Executes work on a stream. `does` receives its order.
  template <class Does>
  int work(Stream& stream, const Does& does);
  int upload(Address to, const void* from, std::size_t bytes, void* stream);
  int download(void* to, Address from, std::size_t bytes);
  int fill(Address to, unsigned char value, std::size_t bytes);

  /// Null for invalid handles.
  Stream* stream(void* handle);
  int create_stream(void** stream, unsigned flags);
  int destroy_stream(void* stream);
  int synchronize(Stream& stream);
  int synchronize(const Device& device);
  /// As cuCtxSynchronize, which captures forbid.
  int synchronize_context(const Device& device);
  int create_event(void** event);
  int record(void* event, void* stream);
  int wait(void* stream, void* event);
  int destroy_event(void* event);
  int begin_capture(Stream& stream, int mode);
  int end_capture(Stream& stream, void** graph);
  /// Makes an executable copy of a graph.
  int instantiate(void** made, void* graph);
  int launch_graph(void* graph, Stream& stream);
  int destroy_graph(void* graph);

  std::mutex mutex;
  std::map<std::string, std::size_t> called;
  std::map<std::string, std::pair<int, int>>
      failing;  // error code, and number of calls that still succeed
  std::vector<Device> devices;
  std::string fault;
  std::vector<LaunchRecord> launches;
  Open open() const;

 private:
  struct ByPointer {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return std::less<const void*>()(address(a), address(b));
    }
    static const void* address(const void* p) { return p; }
    template <class T>
    static const void* address(const std::unique_ptr<T>& p) {
      return p.get();
    }
  };
  template <class T>
  using Handles = std::set<std::unique_ptr<T>, ByPointer>;

  template <class T>
  static T* find(const Handles<T>& all, const void* handle) {
    const auto found = all.find(handle);
    return found == all.end() ? nullptr : found->get();
  }
  // Executes the work now, or at each launch of the graph that the stream records.
  template <class Work>
  int do_or_record(Stream& stream, Work&& work);
  int refuse_in_captures(const Device& device, bool also_relaxed);
  void arrange(Stream& stream);
  bool is_over(const Stream& stream, std::uint32_t launch) const;
  std::uint32_t first_open(const Stream& stream, std::uint32_t launch) const;
  int broken(Device& device, const Fault& fault);

  Memory memory_;
  Handles<Module> modules_;
  Handles<KernelFunction> functions_;
  Handles<Stream> streams_;
  Handles<Event> events_;
  Handles<Graph> graphs_;
  std::vector<std::unique_ptr<Stream>> default_streams_;  // per device
  std::map<int, std::vector<std::uint32_t>> work_of_;     // per stream, by number
  std::vector<int> stream_of_ = {0};                      // per launch
  Seen host_;                                             // the work that the host has waited for
  std::map<int, Seen> of_destroyed_;  // per device, the work of destroyed streams
  int next_stream_ = 0;
};

/// Never destroyed, because modules may be unloaded while the process exits.
Driver& the_driver();

/// The contexts that the calling thread has pushed. The last one is current.
std::vector<Device*>& contexts();

}  // namespace jitstep::ptx::driver
